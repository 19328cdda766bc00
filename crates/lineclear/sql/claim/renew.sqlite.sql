-- renew · extend all leases of a node in one statement
-- SQLite has no row locks, so a row is renewed or lost.
-- ?1 node, ?2 lease in ms, ?3 rows of job, claim number, ms from its start to its deadline or null, ms since its handler began or null
update background_job
set    due_at = now_us() + ?2 * 1000, started_at = coalesce(started_at, now_us() - i.ran_ms * 1000),
       deadline_at = coalesce(deadline_at, coalesce(started_at, now_us() - i.ran_ms * 1000) + i.deadline_ms * 1000)
from   (select value ->> 0 as id, value ->> 1 as claim_no, value ->> 2 as deadline_ms, value ->> 3 as ran_ms from json_each(?3)) i
where  background_job.id = i.id and background_job.claim_no = i.claim_no and background_job.leased_by = ?1;
select i.id, i.claim_no, iif(b.id is null, 'lost', 'renewed') as status, b.cancel_requested_at is not null as cancel
from   (select value ->> 0 as id, value ->> 1 as claim_no from json_each(?3)) i
left   join background_job b on b.id = i.id and b.claim_no = i.claim_no and b.leased_by = ?1
order  by i.id
