-- 0003_background_job · jobs handed to workers: ready, or leased.

create table {schema}.background_job (
    id                  bigint primary key,
    manifest_id         bigint,
    tick_at             timestamptz,
    origin              text     not null,
    kind                text     not null,
    route               text     not null,
    input               text,
    group_id            bigint,
    priority            smallint not null,
    -- The end of the lease; of an unleased row, when it was dispatched.
    due_at              timestamptz not null,
    -- When the job was due, for history and for its way back.
    was_due_at          timestamptz not null,
    rank                bigint   not null,
    gated               boolean  not null,
    limit_key           text,
    unique_key          text,
    retries             integer,
    timeout_ms          bigint,
    -- Only ever grows, over retries and revivals too. Every write after a claim names it.
    claim_no            integer  not null,
    failures            integer  not null,
    crashes             integer  not null,
    last_error          text,
    cancel_requested_at timestamptz,
    created_at          timestamptz not null,
    trace               text,
    tags                text,
    leased_by           bigint,
    claimed_at          timestamptz,
    started_at          timestamptz,
    deadline_at         timestamptz,
    progress            text
);
create index background_job_ready     on {schema}.background_job (route, rank, id) where leased_by is null;
create index background_job_lease     on {schema}.background_job (due_at)          where leased_by is not null;
create index background_job_group     on {schema}.background_job (group_id)        where group_id is not null;
create index background_job_limit_key on {schema}.background_job (limit_key)       where limit_key is not null;
create index background_job_manifest  on {schema}.background_job (manifest_id)     where manifest_id is not null;
create index background_job_cancel    on {schema}.background_job (leased_by)       where cancel_requested_at is not null;
