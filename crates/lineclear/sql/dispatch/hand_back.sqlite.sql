-- hand_back · dispatched jobs that no worker claimed go back into the queue, so that they hold no limit for ever
-- As in PostgreSQL.
-- ?1 route, ?2 at most, ?3 ms since they were dispatched
delete from temp.picked;
insert into temp.picked (id)
select id from background_job where route = ?1 and leased_by is null and due_at <= now_us() - ?3 * 1000
order  by rank, id limit ?2;
insert into work_queue (id, {job}, fresh, due_at, phase, rank, gated, claim_no, failures, crashes, last_error, cancel_requested_at)
select b.id, {b.job}, 0, b.was_due_at,
       iif(b.origin <> 'trigger' and (select o.paused from manifest_state o where o.manifest_id = b.manifest_id), 'parked', 'ready'),
       b.rank, b.gated, b.claim_no, b.failures, b.crashes, b.last_error, b.cancel_requested_at
from   temp.picked p cross join background_job b on b.id = p.id;
delete from background_job where id in (select id from temp.picked)
returning id, limit_key
