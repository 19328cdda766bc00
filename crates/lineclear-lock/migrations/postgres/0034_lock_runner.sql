-- 0034_lock_runner · runners of all nodes, for people: each runs on one node at a time, and waits on the others.
-- The same as lineclear-lock makes for itself, which may have been here before. A test compares them.

create table if not exists {schema}.lock_runner (
  id text collate "C" primary key, -- fresh for each start of a runner
  lock_name text collate "C" not null,
  store text collate "C" not null, -- where the lock itself is
  node text not null,
  machine text not null,
  pid bigint not null,
  incarnation text not null, -- tells processes of one machine and pid apart
  kind text,
  state text not null, -- waiting, running, failing or stopped
  since_at timestamptz not null,
  epoch bigint, -- null unless this node holds the lock
  failures bigint not null, -- in a row
  last_error text,
  failed_at timestamptz,
  renewed_at timestamptz not null,
  renew_ms bigint not null -- how often its node renews this row
) with (fillfactor = 50);
create index if not exists lock_runner_name on {schema}.lock_runner (lock_name, id);
