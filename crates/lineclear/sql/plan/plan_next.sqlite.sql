-- plan_next · when is the next manifest due, is a lease over, and what time is it in the database?
-- A read: an idle planner sends this instead of taking the lead for nothing. SQLite's indexes have no entries of rows that are
-- gone, so a mark saves nothing here.
-- Indexes: manifest_due, background_job_lease, background_job_deadline.
-- ?1 mark of manifests, ?2 mark of leases (null: none)
select (select next_due_at from manifest
        where  enabled and not held and next_due_at is not null and next_due_at >= coalesce(?1, 0)
        order by next_due_at, id limit 1) as next_due_at,
       (select min(due_at) from background_job where leased_by is not null and due_at >= coalesce(?2, 0) and due_at <= now_us()) is not null
       or (select min(deadline_at) from background_job
           where  deadline_at is not null and deadline_at >= coalesce(?2, 0) and deadline_at <= now_us()) is not null as lease_over,
       now_us() as now
