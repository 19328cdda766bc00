-- outbox_schema · messages to deliver, messages that were delivered, dedup keys, and numbers of partitions
create table if not exists {schema}.outbox_message (
  id bigint generated always as identity primary key,
  outbox text collate "C" not null default 'main',
  topic text not null,
  key text collate "C", -- messages of one key are delivered in the order of their ids
  payload json not null,
  headers json,
  trace text, -- W3C traceparent
  delivery_id uuid not null default gen_random_uuid(), -- the same for every attempt
  created_at timestamptz not null default clock_timestamp(),
  ready boolean not null default true, -- due; false: due_at is to come, or it is dead
  aside boolean not null default false, -- it waits behind another one of its key, which failed
  due_at timestamptz not null default clock_timestamp(),
  expires_at timestamptz,
  attempts integer not null default 0, -- that failed
  last_error text,
  failed_at timestamptz,
  dead_at timestamptz
) with (fillfactor = 90, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000);
create index if not exists outbox_message_ready on {schema}.outbox_message (outbox, id) where ready;
create index if not exists outbox_message_due on {schema}.outbox_message (outbox, due_at, id) where not ready and dead_at is null;
create index if not exists outbox_message_retrying on {schema}.outbox_message (outbox, key, id)
  where (attempts > 0 or aside) and not ready and dead_at is null and key is not null;
create index if not exists outbox_message_dead on {schema}.outbox_message (outbox, id) where dead_at is not null;
create table if not exists {schema}.outbox_delivered (
  id bigint primary key,
  outbox text collate "C" not null,
  topic text not null,
  key text collate "C",
  payload json not null,
  headers json,
  trace text,
  delivery_id uuid not null,
  created_at timestamptz not null,
  attempts integer not null,
  delivered_at timestamptz not null
);
create index if not exists outbox_delivered_at on {schema}.outbox_delivered (outbox, delivered_at);
create table if not exists {schema}.outbox_dedup (
  outbox text collate "C" not null,
  dedup_key text collate "C" not null,
  created_at timestamptz not null default now(),
  primary key (outbox, dedup_key)
);
create index if not exists outbox_dedup_at on {schema}.outbox_dedup (outbox, created_at);
create table if not exists {schema}.outbox_partition (
  outbox text collate "C" primary key, -- its partitions are the outboxes NAME/0, NAME/1 and so on
  partitions integer not null constraint outbox_partition_count check (partitions between 2 and 64)
);
create or replace function {schema}.outbox_write(
  topic text, payload json, key text default null, headers json default null, dedup_key text default null,
  not_before timestamptz default null, expires_at timestamptz default null, trace text default null, outbox text default 'main'
) returns bigint language plpgsql as $outbox$
declare
  written bigint;
begin
  if outbox_write.dedup_key is not null then
    insert into {schema}.outbox_dedup as d (outbox, dedup_key) values (outbox_write.outbox, outbox_write.dedup_key)
    on conflict do nothing;
    if not found then
      return null;
    end if;
  end if;
  insert into {schema}.outbox_message as m (outbox, topic, key, payload, headers, trace, ready, due_at, expires_at)
  values (
    coalesce(outbox_write.outbox || '/'
      || coalesce(hashtextextended(outbox_write.key collate "C", 0) & 9223372036854775807, (random() * 1000000)::bigint)
      % (select p.partitions from {schema}.outbox_partition p where p.outbox = outbox_write.outbox), outbox_write.outbox),
    outbox_write.topic, outbox_write.key, outbox_write.payload, outbox_write.headers, outbox_write.trace,
    coalesce(outbox_write.not_before <= clock_timestamp(), true), coalesce(outbox_write.not_before, clock_timestamp()),
    outbox_write.expires_at)
  returning m.id into written;
  return written;
end
$outbox$
