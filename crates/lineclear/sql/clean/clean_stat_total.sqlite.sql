-- clean_stat_total · old rows of the statistics of all jobs
-- By its primary key.
-- ?1 keep so many ms, ?2 at most
delete from stat_total
where  (step_s, at, outcome, run_from_ms) in (
           select step_s, at, outcome, run_from_ms from stat_total
           where  step_s in (60, 1200, 7200) and at < now_us() - ?1 * 1000 order by step_s, at limit ?2);
select changes() as cleaned
