-- 0001_manifest · standing orders: groups, manifests, who waits for whom, and the ledger that makes a tick once.
-- Names of constraints and indexes are API: errors are told apart by them.

create table {schema}.manifest_group (
    id         bigint generated always as identity primary key,
    name       text     not null constraint manifest_group_name unique,
    max_active integer  constraint manifest_group_max_active check (max_active >= 0),
    priority   smallint not null default 0 constraint manifest_group_priority check (priority between 0 and 31),
    enabled    boolean  not null default true,
    -- Jobs of a gated group wait in a lane of their own. Set with the first limit or switch-off, never taken back:
    -- un-gating would have to find every row still in flight.
    gated      boolean  not null default false,
    declared   text     not null default '{}',
    version    bigint   not null default 1
);
-- The global limit and switch are this group's.
insert into {schema}.manifest_group (name) values ('*');

create table {schema}.manifest (
    id              bigint generated always as identity primary key,
    key             text     not null constraint manifest_key unique,
    owner           text     not null,
    kind            text     not null,
    route           text     not null,
    input           text     not null,
    group_id        bigint,
    spec            text     not null,
    overlap         text     not null constraint manifest_overlap check (overlap in ('skip', 'queue_one', 'allow', 'cancel')),
    priority        smallint not null constraint manifest_priority check (priority between 0 and 31),
    -- Null: as the kind says.
    retries         integer  constraint manifest_retries check (retries >= 0),
    timeout_ms      bigint   constraint manifest_timeout check (timeout_ms > 0),
    enabled         boolean  not null,
    -- True while a dead letter of it waits for a person.
    held            boolean  not null default false,
    next_due_at     timestamptz,
    -- Every tick up to here is decided. Never goes back.
    planned_through timestamptz not null,
    declared        text     not null,
    version         bigint   not null default 1,
    created_at      timestamptz not null default now(),
    updated_at      timestamptz not null default now()
);
-- Only what can be planned: a thousand held manifests must not stand at the head of every cycle.
create index manifest_due on {schema}.manifest (next_due_at, id) where enabled and not held and next_due_at is not null;

create table {schema}.manifest_parent (
    parent_id bigint not null,
    child_id  bigint not null,
    primary key (parent_id, child_id)
);
create index manifest_parent_child on {schema}.manifest_parent (child_id);

-- What settling writes; apart from manifest, so that settle and planner never wait for each other.
create table {schema}.manifest_state (
    manifest_id         bigint primary key,
    last_success_at     timestamptz,
    last_success_job_id bigint,
    last_output         text,
    -- Parents that completed in this round: a JSON array of manifest ids.
    arrived             text   not null default '[]',
    round               bigint not null default 0,
    -- Ledger keys of turns that no schedule gave: later than this, so that no two are the same.
    last_turn_at        timestamptz,
    -- What manifest.enabled says, here because settle must see it under a lock that the planner never takes.
    paused              boolean not null default false
);

create table {schema}.tick (
    manifest_id   bigint      not null,
    tick_at       timestamptz not null,
    -- The last tick of a skipped range.
    until_tick_at timestamptz,
    job_id        bigint,
    skip_reason   text,
    constraint tick_once primary key (manifest_id, tick_at),
    constraint tick_fired_or_skipped check ((job_id is null) <> (skip_reason is null))
);
create index tick_old on {schema}.tick (tick_at);
