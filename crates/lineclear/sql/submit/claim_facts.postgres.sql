-- claim_facts · what decides how claims of a worker are settled, and whether the worker still holds them
-- Index: background_job_pkey. A claim without a row is lost.
-- $1.. job, claim number
select b.id, b.claim_no, b.leased_by, b.manifest_id, b.kind, b.failures, b.retries,
       (select m.backoff from {schema}.manifest m where m.id = b.manifest_id) as backoff
from   unnest($1::bigint[], $2::bigint[]) as i (id, claim_no)
join   {schema}.background_job b on b.id = i.id and b.claim_no = i.claim_no
where  b.leased_by is not null
