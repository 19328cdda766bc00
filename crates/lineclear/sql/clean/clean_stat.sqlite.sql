-- clean_stat · old rows of statistics by the minute
-- By its primary key.
-- ?1 keep so many ms, ?2 at most
delete from stat_minute
where  (minute, kind, group_id, manifest_id, outcome) in (
           select minute, kind, group_id, manifest_id, outcome from stat_minute where minute < now_us() - ?1 * 1000
           order  by minute limit ?2);
select changes() as cleaned
