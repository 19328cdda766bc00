-- list_running · jobs that run, the longest first
--
-- Sorts what runs: no more than all nodes have slots. Index: background_job_lease.
-- $1 at most
select b.id, b.kind, b.claim_no, b.claimed_at, b.progress, b.cancel_requested_at is not null as cancelling,
       (select m.key from {schema}.manifest m where m.id = b.manifest_id) as manifest_key,
       (select n.name from {schema}.node n where n.id = b.leased_by) as node_name
from   {schema}.background_job b
where  b.leased_by is not null
order  by b.claimed_at, b.id
limit  $1::bigint
