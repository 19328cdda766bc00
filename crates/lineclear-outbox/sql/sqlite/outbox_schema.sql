-- outbox_schema · messages to deliver, messages that were delivered, and dedup keys
-- Times are microseconds since 1970. A program that writes SQL itself leaves out what has a default.
create table if not exists lineclear_outbox_message (
  id integer primary key autoincrement,
  outbox text not null default 'main',
  topic text not null,
  key text, -- messages of one key are delivered in the order of their ids
  payload text not null constraint outbox_payload_json check (json_valid(payload)),
  headers text,
  trace text, -- W3C traceparent
  delivery_id text not null default (lower(hex(randomblob(16)))), -- the same for every attempt
  created_at integer not null default (cast((julianday('now') - 2440587.5) * 86400000000 as integer)),
  ready integer not null default 1, -- due; 0: due_at is to come, or it is dead
  aside integer not null default 0, -- it waits behind another one of its key, which failed
  due_at integer not null default (cast((julianday('now') - 2440587.5) * 86400000000 as integer)),
  expires_at integer,
  attempts integer not null default 0, -- that failed
  last_error text,
  failed_at integer,
  dead_at integer
) strict;
create index if not exists lineclear_outbox_message_ready on lineclear_outbox_message (outbox, id) where ready = 1;
create index if not exists lineclear_outbox_message_due on lineclear_outbox_message (outbox, due_at, id) where ready = 0 and dead_at is null;
create index if not exists lineclear_outbox_message_retrying on lineclear_outbox_message (outbox, key, id)
  where (attempts > 0 or aside = 1) and ready = 0 and dead_at is null and key is not null;
create index if not exists lineclear_outbox_message_dead on lineclear_outbox_message (outbox, id) where dead_at is not null;
create table if not exists lineclear_outbox_delivered (
  id integer primary key,
  outbox text not null,
  topic text not null,
  key text,
  payload text not null,
  headers text,
  trace text,
  delivery_id text not null,
  created_at integer not null,
  attempts integer not null,
  delivered_at integer not null
) strict;
create index if not exists lineclear_outbox_delivered_at on lineclear_outbox_delivered (outbox, delivered_at);
create table if not exists lineclear_outbox_dedup (
  outbox text not null,
  dedup_key text not null,
  created_at integer not null,
  primary key (outbox, dedup_key)
) strict, without rowid;
create index if not exists lineclear_outbox_dedup_at on lineclear_outbox_dedup (outbox, created_at);
