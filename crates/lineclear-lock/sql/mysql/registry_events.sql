-- registry_events · the history of locks
create table if not exists lock_event (
  id bigint not null auto_increment primary key,
  lock_name varbinary(255) not null,
  store varbinary(255) not null,
  what varchar(16) not null, constraint lock_event_what check (what in ('taken', 'lost', 'vanished', 'broken')),
  at datetime(6) not null,
  holder varbinary(1024) not null, -- machine/pid/incarnation
  epoch bigint not null,
  `before` varbinary(1024), -- who had it before
  by_whom varbinary(1024), -- who took it away
  why varbinary(4096),
  key lock_event_name (lock_name, id),
  key lock_event_at (at)
) engine = InnoDB
