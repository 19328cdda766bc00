-- 0034_lock_runner · runners of all nodes, for people: each runs on one node at a time, and waits on the others.
-- The same as lineclear-lock makes for itself, which may have been here before. A test compares them.

create table if not exists lock_runner (
  id text primary key, -- fresh for each start of a runner
  lock_name text not null,
  store text not null, -- where the lock itself is
  node text not null,
  machine text not null,
  pid integer not null,
  incarnation text not null, -- tells processes of one machine and pid apart
  kind text,
  state text not null, -- waiting, running, failing or stopped
  since_at integer not null, -- microseconds since 1970
  epoch integer, -- null unless this node holds the lock
  failures integer not null, -- in a row
  last_error text,
  failed_at integer,
  renewed_at integer not null,
  renew_ms integer not null -- how often its node renews this row
) strict;
create index if not exists lock_runner_name on lock_runner (lock_name, id);
