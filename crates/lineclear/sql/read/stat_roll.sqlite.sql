-- stat_roll · what ended in some minutes → stat_minute
-- As in PostgreSQL. Indexes: execution_completed, execution_ended, execution_tried.
-- ?1 from, ?2 up to: whole minutes
insert into stat_minute (minute, kind, group_id, manifest_id, outcome, claims, run_ms, run_ms_max, wait_ms, wait_ms_max)
select finished_at / 60000000 * 60000000, kind, coalesce(group_id, 0), coalesce(manifest_id, 0), outcome, count(*),
       sum(max(0, coalesce(finished_at - coalesce(started_at, claimed_at), 0)) / 1000),
       max(max(0, coalesce(finished_at - coalesce(started_at, claimed_at), 0)) / 1000),
       sum(max(0, coalesce(claimed_at - due_at, 0)) / 1000), max(max(0, coalesce(claimed_at - due_at, 0)) / 1000)
from  (select finished_at, kind, group_id, manifest_id, outcome, due_at, claimed_at, started_at from execution
       where  final and outcome = 'completed' and finished_at >= ?1 and finished_at < ?2
       union all
       select finished_at, kind, group_id, manifest_id, outcome, due_at, claimed_at, started_at from execution
       where  final and outcome <> 'completed' and finished_at >= ?1 and finished_at < ?2
       union all
       select finished_at, kind, group_id, manifest_id, outcome, due_at, claimed_at, started_at from execution
       where  not final and finished_at >= ?1 and finished_at < ?2)
where  true
group  by 1, 2, 3, 4, 5
on conflict (minute, kind, group_id, manifest_id, outcome) do update
set    claims = excluded.claims, run_ms = excluded.run_ms, run_ms_max = excluded.run_ms_max, wait_ms = excluded.wait_ms,
       wait_ms_max = excluded.wait_ms_max
where  excluded.claims > stat_minute.claims;
select changes() as rolled;
update stat_mark set through = ?2 where through < ?2
