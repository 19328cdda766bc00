-- outbox_dedup · dedup keys that are remembered
create table if not exists lineclear_outbox_dedup (
  outbox varbinary(100) not null,
  dedup_key varbinary(255) not null,
  created_at datetime(6) not null,
  primary key (outbox, dedup_key),
  key outbox_dedup_at (outbox, created_at)
) engine = InnoDB
