-- 0005_dead_letter · jobs whose tries are used up, and what people decided about them.

create table dead_letter (
    id          integer primary key autoincrement,
    job_id      integer   not null,
    manifest_id integer,
    tick_at     integer,
    origin      text     not null,
    kind        text     not null,
    route       text     not null,
    input       text,
    group_id    integer,
    priority    integer not null,
    limit_key   text,
    unique_key  text,
    retries     integer,
    timeout_ms  integer,
    claim_no    integer  not null,
    failures    integer  not null,
    crashes     integer  not null,
    last_error  text,
    created_at  integer not null,
    trace       text,
    tags        text,
    reason      text     not null constraint dead_letter_reason
                check (reason in ('retries_used_up', 'permanent', 'worker_lost')),
    fingerprint text,
    status      text     not null default 'awaiting' constraint dead_letter_status
                check (status in ('awaiting', 'revived', 'acknowledged')),
    note        text,
    dead_at     integer not null,
    resolved_at integer,
    resolved_by text
) strict;
create unique index dead_letter_awaiting on dead_letter (job_id) where status = 'awaiting';
create index dead_letter_status   on dead_letter (status, id);
create index dead_letter_job      on dead_letter (job_id);
create index dead_letter_manifest on dead_letter (manifest_id) where status = 'awaiting' and manifest_id is not null;
create index dead_letter_resolved on dead_letter (resolved_at) where status <> 'awaiting';
