-- list_running · jobs that run, the longest first
-- As in PostgreSQL. Index: background_job_lease.
-- ?1 at most
select b.id, b.kind, b.claim_no, b.claimed_at, b.progress, b.cancel_requested_at is not null as cancelling,
       (select m.key from manifest m where m.id = b.manifest_id) as manifest_key,
       (select n.name from node n where n.id = b.leased_by) as node_name
from   background_job b
where  b.leased_by is not null and b.due_at > 0
order  by b.claimed_at, b.id
limit  ?1
