-- 0009_tending · what planner, dispatcher and workers need to tend each other's work.

-- Parked because the node that took it did not know its kind; a node that does brings it back.
alter table {schema}.work_queue add column unknown_kind boolean not null default false;
create index work_queue_unknown on {schema}.work_queue (kind, id) where unknown_kind;
-- Jobs that run for longer than a renewal have a deadline, after which their worker is not believed any more.
create index background_job_deadline on {schema}.background_job (deadline_at) where deadline_at is not null;
-- A share of a planning cycle for every group.
create index manifest_due_group on {schema}.manifest (group_id, next_due_at, id)
    where enabled and not held and next_due_at is not null;
