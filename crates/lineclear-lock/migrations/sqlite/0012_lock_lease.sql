-- 0012_lock_lease · who holds which lock, for people; planners among them.
-- The same as lineclear-lock makes for itself, which may have been here before. A test compares them.

create table if not exists lock_lease (
  lock_name text not null,
  store text not null, -- where the lock itself is: its names are its own
  node text not null,
  machine text not null,
  pid integer not null,
  incarnation text not null, -- tells processes of one machine and pid apart
  kind text,
  epoch integer not null,
  since_at integer not null, -- microseconds since 1970; from when on no other node has had it
  acquired_at integer not null, -- when it was last taken
  renewed_at integer not null,
  released_at integer, -- null while it is held
  renew_ms integer not null, -- how often its holder renews this row
  holds integer not null, -- how often it was taken since then
  contended integer not null, -- how often others found it busy since then
  contended_at integer,
  primary key (lock_name, store)
) strict;
create table if not exists lock_event (
  id integer primary key autoincrement,
  lock_name text not null,
  store text not null,
  what text not null constraint lock_event_what check (what in ('taken', 'lost', 'vanished', 'broken')),
  at integer not null,
  holder text not null, -- machine/pid/incarnation
  epoch integer not null,
  before text, -- who had it before
  by_whom text, -- who took it away
  why text
) strict;
create index if not exists lock_event_name on lock_event (lock_name, id);
create index if not exists lock_event_at on lock_event (at);
create view if not exists nagare_leases as
select lock_name, machine || '/' || pid as node_id, machine, pid, kind,
  strftime('%Y-%m-%dT%H:%M:%fZ', acquired_at / 1000000.0, 'unixepoch') as acquired_at,
  strftime('%Y-%m-%dT%H:%M:%fZ', renewed_at / 1000000.0, 'unixepoch') as renewed_at
from lock_lease
where released_at is null or released_at > (unixepoch('subsec') - 60) * 1000000;
