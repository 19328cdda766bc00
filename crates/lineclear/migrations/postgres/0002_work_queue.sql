-- 0002_work_queue · jobs that wait: now, for later, for a place under a limit, or for another try.

-- A job has one id from acceptance to its end, in whatever table it is.
create sequence {schema}.job_id as bigint;

create table {schema}.work_queue (
    id                  bigint primary key,
    manifest_id         bigint,
    -- The tick it stands for: identity, never changes. due_at says when it may be taken.
    tick_at             timestamptz,
    origin              text     not null constraint work_queue_origin
                        check (origin in ('tick', 'trigger', 'dependent', 'dormant', 'backfill', 'adhoc')),
    -- True for a row that was never claimed and that its manifest may have only one of.
    fresh               boolean  not null,
    kind                text     not null,
    route               text     not null,
    -- Null: longer than 512 bytes, in job_payload, so that moving the job does not copy it.
    input               text,
    group_id            bigint,
    priority            smallint not null constraint work_queue_priority check (priority between 0 and 31),
    due_at              timestamptz not null,
    phase               text     not null constraint work_queue_phase check (phase in ('later', 'ready', 'held', 'parked')),
    rank                bigint   not null,
    gated               boolean  not null,
    limit_key           text,
    unique_key          text,
    retries             integer  constraint work_queue_retries check (retries >= 0),
    timeout_ms          bigint   constraint work_queue_timeout check (timeout_ms > 0),
    claim_no            integer  not null default 0,
    failures            integer  not null default 0,
    crashes             integer  not null default 0,
    last_error          text,
    cancel_requested_at timestamptz,
    created_at          timestamptz not null default now(),
    trace               text,
    tags                text
);
create unique index work_queue_fresh on {schema}.work_queue (manifest_id) where fresh;
create index work_queue_manifest on {schema}.work_queue (manifest_id) where manifest_id is not null;
-- A gate is a leading column, or it takes the row out of the index that dispatch walks.
create index work_queue_open  on {schema}.work_queue (route, rank, id)           where phase = 'ready' and not gated;
create index work_queue_gated on {schema}.work_queue (route, group_id, rank, id) where phase = 'ready' and gated;
create index work_queue_later on {schema}.work_queue (due_at)                    where phase = 'later';
create index work_queue_held  on {schema}.work_queue (limit_key, rank, id)       where phase = 'held';
create index work_queue_parked on {schema}.work_queue (id)                      where phase = 'parked';

create table {schema}.job_payload (
    job_id bigint primary key,
    input  text not null
);

create table {schema}.job_key (
    key    text   constraint job_key_once primary key,
    job_id bigint not null,
    -- Null: as long as the job lives. Otherwise at least until then.
    until  timestamptz
);
create index job_key_old on {schema}.job_key (until) where until is not null;

create table {schema}.limit_key (
    key text    primary key,
    max integer not null default 1 constraint limit_key_max check (max >= 0),
    -- Rows that dispatch made by itself go when nobody uses them; fixed ones stay.
    fixed boolean not null default false
);
