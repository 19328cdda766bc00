-- transfer_leases · leases of a node go to workers or submitters; fenced by (id, claim_no)
-- As in PostgreSQL.
-- ?1 the node, ?2 ms from the start of each job to its deadline or null, ?3 rows of job, claim number, new holder, lease in ms, id in the other system or null
update background_job
set    leased_by = i.holder, due_at = now_us() + i.lease_ms * 1000, external_id = i.external_id,
       started_at = coalesce(started_at, now_us()), deadline_at = coalesce(started_at, now_us()) + ?2 * 1000
from   (select value ->> 0 as id, value ->> 1 as claim_no, value ->> 2 as holder, value ->> 3 as lease_ms, value ->> 4 as external_id
        from   json_each(?3)) i
where  background_job.id = i.id and background_job.claim_no = i.claim_no and background_job.leased_by = ?1
returning background_job.id, background_job.claim_no
