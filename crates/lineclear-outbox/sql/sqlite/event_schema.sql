-- event_schema · events, the versions of their streams, checkpoints of subscriptions, and parked events
-- Times are microseconds since 1970.
create table if not exists lineclear_event (
  position integer primary key autoincrement, -- in the log
  event_id text not null default (lower(hex(randomblob(16)))),
  stream text not null,
  version integer not null, -- in its stream, from 1
  type text not null,
  payload text not null constraint event_payload_json check (json_valid(payload)),
  headers text,
  trace text, -- W3C traceparent
  created_at integer not null default (cast(unixepoch('subsec') * 1000000 as integer)),
  constraint event_stream_version unique (stream, version)
) strict;
create table if not exists lineclear_event_stream (
  stream text primary key,
  version integer not null -- of its last event
) strict, without rowid;
create table if not exists lineclear_subscription_checkpoint (
  name text not null,
  version integer not null, -- a rebuild has the next one
  active integer not null, -- 0: a rebuild, in the shadow of the active one
  versions integer not null, -- the highest version so far: none is given twice
  kind text not null, -- transaction: its effects are in this database; external: they are elsewhere
  position integer not null, -- all events up to here are handled, parked or filtered out
  state text not null default 'running', -- running, paused, or stopped at an event that fails
  reason text, -- of a pause or a stop
  swaps integer not null default 0, -- a rebuild that replaces the active one as soon as it has caught up
  handled integer not null default 0,
  failed_position integer, -- the event that failed
  failures integer not null default 0, -- its attempts that failed
  last_error text,
  failed_at integer,
  retry_at integer, -- not before
  updated_at integer not null default (cast(unixepoch('subsec') * 1000000 as integer)),
  primary key (name, version)
) strict, without rowid;
create unique index if not exists lineclear_subscription_checkpoint_role on lineclear_subscription_checkpoint (name, active);
create table if not exists lineclear_subscription_parked (
  id integer primary key autoincrement,
  name text not null,
  version integer not null,
  position integer not null,
  attempts integer not null,
  last_error text,
  parked_at integer not null default (cast(unixepoch('subsec') * 1000000 as integer)),
  replays integer not null default 0, -- its subscription handles it again
  constraint subscription_parked_event unique (name, version, position)
) strict;
