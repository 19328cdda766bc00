-- lock_schema · the table of epochs; rows are kept for ever, so that epochs never go back. Whether a lock is held is not stored here: the
-- server's lock says it
create table lock_epoch (
  name varbinary(255) not null primary key, -- bytes, because text is compared without regard to case
  epoch bigint not null,
  holder nvarchar(1024) not null,
  kind nvarchar(1024),
  ttl_ms bigint not null,
  acquired_at datetime2(6) not null -- UTC, by the server's clock
)
