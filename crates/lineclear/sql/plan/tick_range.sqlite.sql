-- tick_range · the ledger rows of a range of ticks, and the last row before it, which may reach into it
-- Index: tick_once.
-- ?1 manifest, ?2 first tick, ?3 last tick
select * from (select tick_at, until_tick_at, job_id, skip_reason from tick
               where  manifest_id = ?1 and tick_at < ?2 order by tick_at desc limit 1)
union all
select tick_at, until_tick_at, job_id, skip_reason from tick
where  manifest_id = ?1 and tick_at between ?2 and ?3
order  by 1
