-- registry_events · the history of locks
create table lock_event (
  id bigint identity primary key,
  lock_name varbinary(255) not null,
  store varbinary(255) not null,
  what varchar(16) not null check (what in ('taken', 'lost', 'vanished', 'broken')),
  [at] bigint not null, -- microseconds since 1970
  holder nvarchar(1024) not null, -- machine/pid/incarnation
  epoch bigint not null,
  [before] nvarchar(1024), -- who had it before
  by_whom nvarchar(1024), -- who took it away
  why nvarchar(2048),
  index lock_event_name (lock_name, id),
  index lock_event_at ([at])
)
