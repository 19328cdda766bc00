-- activate_claim · a claim that still holds, locked, and its manifest
-- Zero rows: the claim is stale.
-- ?1 job, ?2 claim number
select b.manifest_id, m.key
from   background_job b
left   join manifest m on m.id = b.manifest_id
where  b.id = ?1 and b.claim_no = ?2 and b.leased_by is not null
