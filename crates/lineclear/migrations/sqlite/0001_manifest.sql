-- 0001_manifest · standing orders: groups, manifests, who waits for whom, and the ledger that makes a tick once.
-- Names of constraints and indexes are API: errors are told apart by them.

create table manifest_group (
    id         integer primary key autoincrement,
    name       text     not null constraint manifest_group_name unique,
    max_active integer  constraint manifest_group_max_active check (max_active >= 0),
    priority   integer not null default 0 constraint manifest_group_priority check (priority between 0 and 31),
    enabled    integer  not null default 1,
    -- Jobs of a gated group wait in a lane of their own. Set with the first limit or switch-off, never taken back:
    -- un-gating would have to find every row still in flight.
    gated      integer  not null default 0,
    declared   text     not null default '{}',
    version    integer   not null default 1
) strict;
-- The global limit and switch are this group's.
insert into manifest_group (name) values ('*');

create table manifest (
    id              integer primary key autoincrement,
    key             text     not null constraint manifest_key unique,
    owner           text     not null,
    kind            text     not null,
    route           text     not null,
    input           text     not null,
    group_id        integer,
    spec            text     not null,
    overlap         text     not null constraint manifest_overlap check (overlap in ('skip', 'queue_one', 'allow', 'cancel')),
    priority        integer not null constraint manifest_priority check (priority between 0 and 31),
    -- Null: as the kind says.
    retries         integer  constraint manifest_retries check (retries >= 0),
    timeout_ms      integer   constraint manifest_timeout check (timeout_ms > 0),
    enabled         integer  not null,
    -- True while a dead letter of it waits for a person.
    held            integer  not null default 0,
    next_due_at     integer,
    -- Every tick up to here is decided. Never goes back.
    planned_through integer not null,
    declared        text     not null,
    version         integer   not null default 1,
    created_at      integer not null,
    updated_at      integer not null
) strict;
-- Only what can be planned: a thousand held manifests must not stand at the head of every cycle.
create index manifest_due on manifest (next_due_at, id) where enabled and not held and next_due_at is not null;

create table manifest_parent (
    parent_id integer not null,
    child_id  integer not null,
    primary key (parent_id, child_id)
) strict;
create index manifest_parent_child on manifest_parent (child_id);

-- What settling writes; apart from manifest, so that settle and planner never wait for each other.
create table manifest_state (
    manifest_id         integer primary key,
    last_success_at     integer,
    last_success_job_id integer,
    last_output         text,
    -- Parents that completed in this round: a JSON array of manifest ids.
    arrived             text   not null default '[]',
    round               integer not null default 0,
    -- Ledger keys of turns that no schedule gave: later than this, so that no two are the same.
    last_turn_at        integer,
    -- What manifest.enabled says, here because settle must see it under a lock that the planner never takes.
    paused              integer not null default 0
) strict;

create table tick (
    manifest_id   integer      not null,
    tick_at       integer not null,
    -- The last tick of a skipped range.
    until_tick_at integer,
    job_id        integer,
    skip_reason   text,
    constraint tick_once primary key (manifest_id, tick_at),
    constraint tick_fired_or_skipped check ((job_id is null) <> (skip_reason is null))
) strict;
create index tick_old on tick (tick_at);
