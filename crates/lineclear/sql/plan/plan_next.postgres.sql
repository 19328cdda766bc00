-- plan_next · when is the next manifest due, is a lease over, and what time is it in the database?
-- A read: an idle planner sends this instead of taking the lead for nothing. An old snapshot keeps the index entries of all ticks and
-- leases that are over, so it may begin at a mark: a moment up to which there was nothing.
-- Indexes: manifest_due, background_job_lease, background_job_deadline.
-- $1 mark of manifests, $2 mark of leases (null: none)
select (select next_due_at from {schema}.manifest
        where  enabled and not held and next_due_at is not null and next_due_at >= coalesce($1::timestamptz, '-infinity')
        order by next_due_at, id limit 1) as next_due_at,
       (select min(due_at) from {schema}.background_job
        where  leased_by is not null and due_at >= coalesce($2::timestamptz, '-infinity') and due_at <= now()) is not null
       or (select min(deadline_at) from {schema}.background_job
           where  deadline_at >= coalesce($2::timestamptz, '-infinity') and deadline_at <= now()) is not null as lease_over,
       now() as now
