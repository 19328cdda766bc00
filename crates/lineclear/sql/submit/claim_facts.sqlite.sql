-- claim_facts · what decides how claims of a worker are settled, and whether the worker still holds them
-- As in PostgreSQL.
-- ?1 rows of job, claim number
select b.id, b.claim_no, b.leased_by, b.manifest_id, b.kind, b.failures, b.retries,
       (select m.backoff from manifest m where m.id = b.manifest_id) as backoff
from   json_each(?1) i
join   background_job b on b.id = i.value ->> 0 and b.claim_no = i.value ->> 1
where  b.leased_by is not null
