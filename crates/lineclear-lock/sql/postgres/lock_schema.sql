-- lock_schema · the table of locks; rows are kept for ever, so that epochs never go back
create table if not exists {schema}.lock_epoch (
  name text collate "C" primary key,
  epoch bigint not null,
  token text not null,
  holder text not null,
  kind text,
  by_session boolean not null,
  acquired_at timestamptz not null,
  renewed_at timestamptz not null,
  ends_at timestamptz not null,
  released_at timestamptz,
  beacon bigint, -- an advisory lock that the holder's connection holds while it lives
  suspected_at timestamptz -- when a request first found the beacon gone
) with (fillfactor = 50)
