-- reclaim · a lease ran out, or its job is long past its time: the job goes back, to the dead letters, or ends as cancelled
-- As in PostgreSQL. CROSS JOIN as in settle. Indexes: background_job_lease, background_job_deadline.
-- ?1 at most, ?2 crashes before it is buried, ?3 jobs that the caller runs itself, ?4 only these jobs; empty: any, ?5 leases that ended
-- before this moment, ?6 and not before this one (null: whenever)
delete from temp.settling;
insert into temp.settling (id, claim_no, verdict, error_type, error_message, after_ms)
select id, claim_no,
       case when cancel_requested_at is not null then 'cancel'
            when crashed and crashes + 1 >= ?2 then 'bury' else 'requeue' end,
       case when started_at is null then 'not_started' when not crashed then 'worker_late' when overdue then 'overdue' else 'worker_lost' end,
       case when overdue then 'the job ran far past its time, and its worker did not end it'
            when crashed then 'the worker did not renew its lease'
            when started_at is null then 'the lease ran out before the start of the handler was recorded'
            else 'the lease ran out, although its node lives' end,
       crashed
from   (select b.id, b.claim_no, b.started_at, b.cancel_requested_at, b.crashes, b.due_at > now_us() as overdue,
               b.started_at is not null
               and (b.due_at > now_us() or not exists (select 1 from node n where n.id = b.leased_by and n.seen_at > b.due_at)) as crashed
        from   background_job b
        where  b.id in (select * from (select l.id from background_job l
                                       where  l.leased_by is not null and l.due_at <= min(now_us(), ?5) and l.due_at >= coalesce(?6, 0)
                                              and l.id not in (select value from json_each(?3))
                                              and (?4 = '[]' or l.id in (select value from json_each(?4)))
                                              and not exists (select 1 from node n
                                                              where  n.id = l.leased_by and n.seen_at <= l.due_at
                                                                     and n.seen_at + n.beat_ms * 1500 > now_us())
                                       order  by l.due_at limit ?1)
                        union all
                        select * from (select l.id from background_job l
                                       where  l.deadline_at <= min(now_us(), ?5) and l.deadline_at >= coalesce(?6, 0)
                                              and not exists (select 1 from node n where n.id = l.leased_by and n.roles = '["submitter"]')
                                              and (?4 = '[]' or l.id in (select value from json_each(?4)))
                                       order  by l.deadline_at limit ?1)));
insert into work_queue (id, {job}, fresh, due_at, phase, rank, gated, claim_no, failures, crashes, last_error)
select b.id, {b.job}, 0, b.was_due_at,
       iif(b.origin <> 'trigger' and (select o.paused from manifest_state o where o.manifest_id = b.manifest_id), 'parked', 'ready'),
       0, b.gated, b.claim_no, b.failures, b.crashes + s.after_ms, s.error_message
from   temp.settling s cross join background_job b on b.id = s.id
where  s.verdict = 'requeue';
insert into dead_letter (job_id, {job}, claim_no, failures, crashes, last_error, reason, dead_at)
select b.id, {b.job}, b.claim_no, b.failures, b.crashes + 1, s.error_message, 'worker_lost', now_us()
from   temp.settling s cross join background_job b on b.id = s.id
where  s.verdict = 'bury';
update manifest set held = 1
where  on_dead = 'hold' and id in (select b.manifest_id from temp.settling s cross join background_job b on b.id = s.id where s.verdict = 'bury');
{free_keys((select b.unique_key, b.id from temp.settling s cross join background_job b on b.id = s.id
                         where  s.verdict = 'cancel'))};
insert into execution
       (job_id, claim_no, final, outcome, {history}, node, input, error_type, error_message,
        due_at, claimed_at, started_at, finished_at)
select b.id, b.claim_no, s.verdict = 'cancel', 'lost', {b.history}, b.leased_by,
       iif(s.verdict = 'cancel', b.input, null), s.error_type, s.error_message, b.was_due_at, b.claimed_at, b.started_at, now_us()
from   temp.settling s cross join background_job b on b.id = s.id;
update temp.settling
set    (node, limit_key) = (select b.leased_by, b.limit_key from background_job b where b.id = settling.id);
delete from background_job where id in (select id from temp.settling);
select id, claim_no, node as leased_by, verdict, limit_key from temp.settling order by id
