-- outbox_delivered · messages that were delivered
create table if not exists lineclear_outbox_delivered (
  id bigint not null primary key,
  outbox varbinary(100) not null,
  topic varbinary(255) not null,
  msg_key varbinary(255),
  payload longtext character set utf8mb4 collate utf8mb4_bin not null,
  headers mediumtext character set utf8mb4 collate utf8mb4_bin,
  trace varbinary(255),
  delivery_id varbinary(36) not null,
  created_at datetime(6) not null,
  attempts int not null,
  delivered_at datetime(6) not null,
  key outbox_delivered_at (outbox, delivered_at)
) engine = InnoDB
