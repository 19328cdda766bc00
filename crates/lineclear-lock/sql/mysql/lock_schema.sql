-- lock_schema · the table of epochs; rows are kept for ever, so that epochs never go back. Whether a lock is held is not stored here: the
-- server's lock says it
create table if not exists lock_epoch (
  name varbinary(255) not null primary key, -- bytes, because text is compared without regard to case
  epoch bigint not null,
  holder varbinary(1024) not null,
  kind varbinary(1024),
  idle_seconds int not null, -- after so much silence the server ends the holder's connection
  acquired_at datetime(6) not null -- UTC, by the server's clock
) engine = InnoDB
