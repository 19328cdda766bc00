-- 0009_tending · what planner, dispatcher and workers need to tend each other's work.

-- Parked because the node that took it did not know its kind; a node that does brings it back.
alter table work_queue add column unknown_kind integer not null default 0 check (unknown_kind in (0, 1));
create index work_queue_unknown on work_queue (kind, id) where unknown_kind;
-- Jobs that run for longer than a renewal have a deadline, after which their worker is not believed any more.
create index background_job_deadline on background_job (deadline_at) where deadline_at is not null;
-- A share of a planning cycle for every group.
create index manifest_due_group on manifest (group_id, next_due_at, id)
    where enabled and not held and next_due_at is not null;
