-- clean_tick · ledger rows that are too old to be backfilled
-- Index: tick_old.
-- ?1 keep so many ms, ?2 at most
delete from tick
where  rowid in (select rowid from tick
                 where  tick_at < now_us() - ?1 * 1000 and coalesce(until_tick_at, tick_at) < now_us() - ?1 * 1000
                 order  by tick_at limit ?2);
select changes() as cleaned
