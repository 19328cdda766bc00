-- settle · background_job → history, another try, or the dead letters; fenced by (id, claim_no)
-- As in PostgreSQL, over a temporary table. CROSS JOIN: SQLite knows nothing of the temporary table's size, and would
-- read all of background_job to look up each row in it.
-- ?1 node, ?2 rows of job, claim number, verdict, outcome, output, error type, error message, fingerprint, delay in ms, reason, µs that the handler ran
delete from temp.settling;
insert into temp.settling
       (id, claim_no, verdict, outcome, output, error_type, error_message, fingerprint, after_ms, reason, node, manifest_id,
        limit_key, unique_key, group_id, ran_us)
select b.id, b.claim_no, iif(b.cancel_requested_at is not null and i.value ->> 2 <> 'complete', 'cancel', i.value ->> 2),
       i.value ->> 3, i.value ->> 4, i.value ->> 5, i.value ->> 6, i.value ->> 7, i.value ->> 8, i.value ->> 9, b.leased_by,
       b.manifest_id, b.limit_key, b.unique_key, iif(b.gated, b.group_id, null), i.value ->> 10
from   json_each(?2) i
cross  join background_job b on b.id = i.value ->> 0 and b.claim_no = i.value ->> 1 and b.leased_by = ?1;
insert into work_queue (id, {job}, fresh, due_at, phase, rank, gated, claim_no, failures, crashes, last_error, unknown_kind)
select b.id, {b.job}, 0, iif(s.verdict in ('release', 'park'), b.was_due_at, now_us() + s.after_ms * 1000),
       case when s.verdict = 'park' then 'parked'
            when b.origin <> 'trigger' and (select o.paused from manifest_state o where o.manifest_id = b.manifest_id) then 'parked'
            when s.verdict <> 'release' and s.after_ms > 0 then 'later' else 'ready' end,
       iif(s.verdict in ('release', 'park'), b.rank, {rank(now_us() + s.after_ms * 1000, b.priority, g.priority)}),
       b.gated or coalesce(g.gated, 0), b.claim_no, b.failures + (s.verdict = 'retry'), b.crashes,
       coalesce(s.error_message, b.last_error), s.verdict = 'park'
from   temp.settling s
cross  join background_job b on b.id = s.id
left   join manifest_group g on g.id = b.group_id
where  s.verdict in ('retry', 'snooze', 'release', 'park');
insert into dead_letter (job_id, {job}, claim_no, failures, crashes, last_error, reason, fingerprint, dead_at)
select b.id, {b.job}, b.claim_no, b.failures + 1, b.crashes, s.error_message, s.reason, s.fingerprint, now_us()
from   temp.settling s cross join background_job b on b.id = s.id
where  s.verdict = 'bury';
update manifest set held = 1 where on_dead = 'hold' and id in (select manifest_id from temp.settling where verdict = 'bury');
update manifest_state
set    last_success_at = now_us(), last_success_job_id = c.id, last_output = c.output
from   (select manifest_id, max(id) as id, output from temp.settling
        where verdict = 'complete' and manifest_id is not null group by manifest_id) c
where  manifest_state.manifest_id = c.manifest_id;
{free_keys((select unique_key, id from temp.settling where verdict in ('complete', 'cancel')))};
insert into execution
       (job_id, claim_no, final, outcome, {history}, node, input, output, error_type, error_message, fingerprint,
        due_at, claimed_at, started_at, finished_at)
select b.id, b.claim_no, s.verdict in ('complete', 'cancel'), s.outcome, {b.history}, b.leased_by,
       iif(s.verdict in ('complete', 'cancel'), b.input, null), s.output, s.error_type, s.error_message, s.fingerprint,
       b.was_due_at, b.claimed_at, coalesce(b.started_at, max(b.claimed_at, now_us() - s.ran_us)), now_us()
from   temp.settling s cross join background_job b on b.id = s.id;
delete from background_job where id in (select id from temp.settling);
select id, claim_no, verdict, manifest_id, limit_key, group_id, 0 as unnoted from temp.settling order by id
