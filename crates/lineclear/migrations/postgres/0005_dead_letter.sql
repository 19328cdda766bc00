-- 0005_dead_letter · jobs whose tries are used up, and what people decided about them.

create table {schema}.dead_letter (
    id          bigint generated always as identity primary key,
    job_id      bigint   not null,
    manifest_id bigint,
    tick_at     timestamptz,
    origin      text     not null,
    kind        text     not null,
    route       text     not null,
    input       text,
    group_id    bigint,
    priority    smallint not null,
    limit_key   text,
    unique_key  text,
    retries     integer,
    timeout_ms  bigint,
    claim_no    integer  not null,
    failures    integer  not null,
    crashes     integer  not null,
    last_error  text,
    created_at  timestamptz not null,
    trace       text,
    tags        text,
    reason      text     not null constraint dead_letter_reason
                check (reason in ('retries_used_up', 'permanent', 'worker_lost')),
    fingerprint text,
    status      text     not null default 'awaiting' constraint dead_letter_status
                check (status in ('awaiting', 'revived', 'acknowledged')),
    note        text,
    dead_at     timestamptz not null default now(),
    resolved_at timestamptz,
    resolved_by text
);
create unique index dead_letter_awaiting on {schema}.dead_letter (job_id) where status = 'awaiting';
create index dead_letter_status   on {schema}.dead_letter (status, id);
create index dead_letter_job      on {schema}.dead_letter (job_id);
create index dead_letter_manifest on {schema}.dead_letter (manifest_id) where status = 'awaiting' and manifest_id is not null;
create index dead_letter_resolved on {schema}.dead_letter (resolved_at) where status <> 'awaiting';
