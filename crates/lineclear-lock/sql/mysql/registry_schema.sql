-- registry_schema · who holds which lock, for people. No lock depends on it
create table if not exists lock_lease (
  lock_name varbinary(255) not null, -- bytes, because text is compared without regard to case
  store varbinary(255) not null, -- where the lock itself is: its names are its own
  node varbinary(1024) not null,
  machine varbinary(255) not null,
  pid bigint not null,
  incarnation varbinary(64) not null, -- tells processes of one machine and pid apart
  kind varbinary(1024),
  epoch bigint not null,
  since_at datetime(6) not null, -- UTC, as all times here; from when on no other node has had it
  acquired_at datetime(6) not null, -- when it was last taken
  renewed_at datetime(6) not null,
  released_at datetime(6), -- null while it is held
  renew_ms bigint not null, -- how often its holder renews this row
  holds bigint not null, -- how often it was taken since then
  contended bigint not null, -- how often others found it busy since then
  contended_at datetime(6),
  primary key (lock_name, store)
) engine = InnoDB
