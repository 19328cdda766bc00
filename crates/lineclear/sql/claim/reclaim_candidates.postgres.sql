-- reclaim_candidates · claims whose lease ran out, or whose job is long past its time
--
-- Read only after a rule refused a reclaim, to find the row that it refused.
-- Indexes: background_job_lease, background_job_deadline. Zero rows: no lease ran out.
-- $1 at most
select over.id from (
    select id from {schema}.background_job
    where  leased_by is not null and due_at <= now() order by due_at limit $1::bigint) over
union
select late.id from (
    select id from {schema}.background_job
    where  deadline_at <= now() order by deadline_at limit $1::bigint) late
