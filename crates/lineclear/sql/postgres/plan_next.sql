-- plan_next · when is the next manifest due, and what time is it here?
-- Index: manifest_due.
select (select next_due_at from {schema}.manifest where enabled and not held and next_due_at is not null
        order by next_due_at, id limit 1) as next_due_at,
       now() as now
