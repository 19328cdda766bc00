-- 0003_background_job · jobs handed to workers: ready, or leased.

create table background_job (
    id                  integer primary key,
    manifest_id         integer,
    tick_at             integer,
    origin              text     not null,
    kind                text     not null,
    route               text     not null,
    input               text,
    group_id            integer,
    priority            integer not null,
    -- The end of the lease; of an unleased row, when it was dispatched.
    due_at              integer not null,
    -- When the job was due, for history and for its way back.
    was_due_at          integer not null,
    rank                integer   not null,
    gated               integer  not null,
    limit_key           text,
    unique_key          text,
    retries             integer,
    timeout_ms          integer,
    -- Only ever grows, over retries and revivals too. Every write after a claim names it.
    claim_no            integer  not null,
    failures            integer  not null,
    crashes             integer  not null,
    last_error          text,
    cancel_requested_at integer,
    created_at          integer not null,
    trace               text,
    tags                text,
    leased_by           integer,
    claimed_at          integer,
    started_at          integer,
    deadline_at         integer,
    progress            text
) strict;
create index background_job_ready     on background_job (route, rank, id) where leased_by is null;
create index background_job_lease     on background_job (due_at)          where leased_by is not null;
create index background_job_group     on background_job (group_id)        where group_id is not null;
create index background_job_limit_key on background_job (limit_key)       where limit_key is not null;
create index background_job_manifest  on background_job (manifest_id)     where manifest_id is not null;
create index background_job_cancel    on background_job (leased_by)       where cancel_requested_at is not null;
