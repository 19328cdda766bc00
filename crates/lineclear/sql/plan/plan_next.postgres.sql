-- plan_next · when is the next manifest due, is a lease over, and what time is it in the database?
-- A read: an idle planner sends this instead of taking the lead for nothing.
-- Indexes: manifest_due, background_job_lease, background_job_deadline.
select (select next_due_at from {schema}.manifest where enabled and not held and next_due_at is not null
        order by next_due_at, id limit 1) as next_due_at,
       coalesce((select min(due_at) from {schema}.background_job where leased_by is not null) <= now(), false)
       or coalesce((select min(deadline_at) from {schema}.background_job where deadline_at is not null) <= now(), false) as lease_over,
       now() as now
