-- reclaim_candidates · claims whose lease ran out, or whose job is long past its time
--
-- Read after a rule refused a reclaim, to find the row that it refused; and after a reclaim that found none, to know whether it left some:
-- locked ones, and those whose node's next heartbeat is still to come.
-- Indexes: background_job_lease, background_job_deadline. Zero rows: no lease ran out.
-- $1 at most, $2 leases that ended not before this moment (null: whenever)
select over.id from (
    select id from {schema}.background_job
    where  leased_by is not null and due_at <= now() and due_at >= coalesce($2::timestamptz, '-infinity') order by due_at limit $1::bigint) over
union
select late.id from (
    select id from {schema}.background_job
    where  deadline_at <= now() and deadline_at >= coalesce($2::timestamptz, '-infinity') order by deadline_at limit $1::bigint) late
