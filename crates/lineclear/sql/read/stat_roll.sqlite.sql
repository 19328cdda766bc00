-- stat_roll · what ended in some minutes → stat_minute
-- As in PostgreSQL. Indexes: execution_completed, execution_ended, execution_tried.
-- ?1 from, ?2 up to: whole minutes
insert into stat_minute (minute, kind, group_id, manifest_id, outcome, claims, run_ms, run_ms_max, wait_ms, wait_ms_max)
select finished_at / 60000000 * 60000000, kind, coalesce(group_id, 0), coalesce(manifest_id, 0), outcome, count(*),
       sum({run_ms}), max({run_ms}), sum({wait_ms}), max({wait_ms})
from  ({executions_ended(?1, ?2)})
where  true
group  by 1, 2, 3, 4, 5
on conflict (minute, kind, group_id, manifest_id, outcome) do update
{raise_stats(stat_minute)};
select changes() as rolled;
update stat_mark set through = ?2 where through < ?2
