-- runner_schema · runners of all nodes, for people
create table lock_runner (
  id varchar(64) not null primary key, -- fresh for each start of a runner
  lock_name varbinary(255) not null,
  store varbinary(255) not null, -- where the lock itself is
  node nvarchar(1024) not null,
  machine nvarchar(255) not null,
  pid bigint not null,
  incarnation nvarchar(64) not null, -- tells processes of one machine and pid apart
  kind nvarchar(1024),
  state varchar(16) not null, -- waiting, running, failing or stopped
  since_at bigint not null, -- microseconds since 1970, as all times here
  epoch bigint, -- null unless this node holds the lock
  failures bigint not null, -- in a row
  last_error nvarchar(2048),
  failed_at bigint,
  renewed_at bigint not null,
  renew_ms bigint not null, -- how often its node renews this row
  index lock_runner_name (lock_name, id)
)
