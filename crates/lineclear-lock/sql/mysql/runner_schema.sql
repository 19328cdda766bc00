-- runner_schema · runners of all nodes, for people
create table if not exists lock_runner (
  id varbinary(64) not null primary key, -- fresh for each start of a runner
  lock_name varbinary(255) not null,
  store varbinary(255) not null, -- where the lock itself is
  node varbinary(1024) not null,
  machine varbinary(255) not null,
  pid bigint not null,
  incarnation varbinary(64) not null, -- tells processes of one machine and pid apart
  kind varbinary(1024),
  state varbinary(16) not null, -- waiting, running, failing or stopped
  since_at datetime(6) not null, -- UTC, as all times here
  epoch bigint, -- null unless this node holds the lock
  failures bigint not null, -- in a row
  last_error varbinary(4096),
  failed_at datetime(6),
  renewed_at datetime(6) not null,
  renew_ms bigint not null, -- how often its node renews this row
  key lock_runner_name (lock_name, id)
) engine = InnoDB
