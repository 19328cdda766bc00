-- activate_claim · a claim that still holds, locked, and its manifest
-- A settle or reclaim of the job waits for this lock, or skips the job; a renewal does not wait.
-- Zero rows: the claim is stale.
-- $1 job, $2 claim number
select b.manifest_id, m.key
from   {schema}.background_job b
left   join {schema}.manifest m on m.id = b.manifest_id
where  b.id = $1::bigint and b.claim_no = $2::bigint and b.leased_by is not null
for    key share of b
