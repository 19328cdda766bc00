-- lock_schema · the table of locks; rows are kept for ever, so that epochs never go back
create table if not exists lock_epoch (
  name text primary key,
  epoch integer not null,
  token text not null,
  holder text not null,
  kind text,
  acquired_at integer not null, -- microseconds since 1970, by the machine's clock
  renewed_at integer not null,
  ends_at integer not null,
  released_at integer
) strict;
