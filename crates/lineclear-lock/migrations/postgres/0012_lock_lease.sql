-- 0012_lock_lease · who holds which lock, for people; planners among them.
-- The same as lineclear-lock makes for itself, which may have been here before. A test compares them.

create table if not exists {schema}.lock_lease (
  lock_name text collate "C" not null,
  store text collate "C" not null, -- where the lock itself is: its names are its own
  node text not null,
  machine text not null,
  pid bigint not null,
  incarnation text not null, -- tells processes of one machine and pid apart
  kind text,
  epoch bigint not null,
  since_at timestamptz not null, -- from when on no other node has had it
  acquired_at timestamptz not null, -- when it was last taken
  renewed_at timestamptz not null,
  released_at timestamptz, -- null while it is held
  renew_ms bigint not null, -- how often its holder renews this row
  holds bigint not null, -- how often it was taken since then
  contended bigint not null, -- how often others found it busy since then
  contended_at timestamptz,
  primary key (lock_name, store)
) with (fillfactor = 50);
create table if not exists {schema}.lock_event (
  id bigint generated always as identity primary key,
  lock_name text collate "C" not null,
  store text collate "C" not null,
  what text not null constraint lock_event_what check (what in ('taken', 'lost', 'vanished', 'broken')),
  at timestamptz not null default now(),
  holder text not null, -- machine/pid/incarnation
  epoch bigint not null,
  before text, -- who had it before
  by_whom text, -- who took it away
  why text
);
create index if not exists lock_event_name on {schema}.lock_event (lock_name, id);
create index if not exists lock_event_at on {schema}.lock_event (at);
create or replace view {schema}.nagare_leases as
select lock_name, machine || '/' || pid as node_id, machine, pid::integer as pid, kind,
  to_char(acquired_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') as acquired_at,
  to_char(renewed_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') as renewed_at
from {schema}.lock_lease
where released_at is null or released_at > now() - interval '60 seconds';
