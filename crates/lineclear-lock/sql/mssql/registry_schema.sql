-- registry_schema · who holds which lock, for people. No lock depends on it
create table lock_lease (
  lock_name varbinary(255) not null, -- bytes, because text is compared without regard to case
  store varbinary(255) not null, -- where the lock itself is: its names are its own
  node nvarchar(1024) not null,
  machine nvarchar(255) not null,
  pid bigint not null,
  incarnation nvarchar(64) not null, -- tells processes of one machine and pid apart
  kind nvarchar(1024),
  epoch bigint not null,
  since_at bigint not null, -- microseconds since 1970, as all times here; from when on no other node has had it
  acquired_at bigint not null, -- when it was last taken
  renewed_at bigint not null,
  released_at bigint, -- null while it is held
  renew_ms bigint not null, -- how often its holder renews this row
  holds bigint not null, -- how often it was taken since then
  contended bigint not null, -- how often others found it busy since then
  contended_at bigint,
  primary key (lock_name, store)
)
