-- clean_stat_total · old minutes of the figures of everything
-- By its primary key.
-- ?1 keep so many ms, ?2 at most
delete from stat_total
where  (minute, outcome, run_from_ms) in (
           select minute, outcome, run_from_ms from stat_total where minute < now_us() - ?1 * 1000 order by minute limit ?2);
select changes() as cleaned
