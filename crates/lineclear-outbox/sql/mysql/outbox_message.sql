-- outbox_message · messages to deliver
-- Text is kept as bytes, because MySQL compares text without regard to case. Times are UTC. There are no partial indexes: `ready` and
-- `retrying` stand in the indexes, and a dead message is due in the year 9999.
create table if not exists lineclear_outbox_message (
  id bigint not null auto_increment primary key,
  outbox varbinary(100) not null default 'main',
  topic varbinary(255) not null,
  msg_key varbinary(255), -- messages of one key are delivered in the order of their ids
  payload longtext character set utf8mb4 collate utf8mb4_bin not null,
  headers mediumtext character set utf8mb4 collate utf8mb4_bin,
  trace varbinary(255), -- W3C traceparent
  delivery_id varbinary(36) not null default (uuid()), -- the same for every attempt
  created_at datetime(6) not null default (utc_timestamp(6)),
  ready boolean not null default true, -- due; false: due_at is to come, or it is dead
  retrying boolean not null default false, -- it failed, or waits behind one of its key that did
  due_at datetime(6) not null default (utc_timestamp(6)),
  expires_at datetime(6),
  attempts int not null default 0, -- that failed
  last_error text character set utf8mb4 collate utf8mb4_bin,
  failed_at datetime(6),
  dead_at datetime(6),
  key outbox_ready (outbox, ready, id),
  key outbox_due (outbox, ready, due_at, id),
  key outbox_retrying (outbox, msg_key, retrying, id),
  key outbox_dead (outbox, dead_at)
) engine = InnoDB
