-- event_schema · events, the versions of their streams, checkpoints of subscriptions, and parked events
create table if not exists {schema}.event (
  position bigint generated always as identity primary key, -- in the log; numbers of transactions that were rolled back are missing
  event_id uuid not null default gen_random_uuid(),
  stream text collate "C" not null,
  version bigint not null, -- in its stream, from 1
  type text collate "C" not null,
  payload json not null,
  headers json,
  trace text, -- W3C traceparent
  created_at timestamptz not null default clock_timestamp(),
  constraint event_stream_version unique (stream, version)
);
create table if not exists {schema}.event_stream (
  stream text collate "C" primary key,
  version bigint not null -- of its last event; writers of one stream wait for this row, so that its versions and positions grow together
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000);
create table if not exists {schema}.subscription_checkpoint (
  name text collate "C" not null,
  version integer not null, -- a rebuild has the next one
  active boolean not null, -- false: a rebuild, in the shadow of the active one
  versions integer not null, -- the highest version so far: none is given twice
  kind text not null, -- transaction: its effects are in this database; external: they are elsewhere
  position bigint not null, -- all events up to here are handled, parked or filtered out
  state text not null default 'running', -- running, paused, or stopped at an event that fails
  reason text, -- of a pause or a stop
  swaps boolean not null default false, -- a rebuild that replaces the active one as soon as it has caught up
  handled bigint not null default 0,
  failed_position bigint, -- the event that failed
  failures integer not null default 0, -- its attempts that failed
  last_error text,
  failed_at timestamptz,
  retry_at timestamptz, -- not before
  updated_at timestamptz not null default clock_timestamp(),
  primary key (name, version)
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000);
create unique index if not exists subscription_checkpoint_role on {schema}.subscription_checkpoint (name, active);
create table if not exists {schema}.subscription_parked (
  id bigint generated always as identity primary key,
  name text collate "C" not null,
  version integer not null,
  position bigint not null,
  attempts integer not null,
  last_error text,
  parked_at timestamptz not null default clock_timestamp(),
  replays boolean not null default false, -- its subscription handles it again
  constraint subscription_parked_event unique (name, version, position)
);
create or replace function {schema}.event_fence() returns trigger language plpgsql as $event$
begin
  -- Before any position is drawn: readers wait for transactions that hold this lock.
  perform pg_advisory_xact_lock_shared(1818518902, tg_relid::integer);
  return null;
end
$event$;
create or replace trigger event_fence before insert on {schema}.event for each statement execute function {schema}.event_fence();
create or replace function {schema}.event_mark(out last bigint, out holders text[]) language plpgsql as $event$
begin
  -- In this order: who has drawn a position up to `last` held the lock before it was read.
  last := coalesce(pg_sequence_last_value(pg_get_serial_sequence('{schema}.event', 'position')::regclass), 0);
  -- A transaction with the number 0 has ended, and is visible.
  select coalesce(array_agg(distinct l.virtualtransaction), '{}') into holders from pg_locks l
  where l.locktype = 'advisory' and l.database = (select d.oid from pg_database d where d.datname = current_database())
    and l.classid = 1818518902 and l.objid = '{schema}.event'::regclass and l.objsubid = 2 and l.granted
    and l.virtualtransaction not like '%/0';
end
$event$;
create or replace function {schema}.event_append_all(
  to_stream text, expected bigint, types text[], payloads text[], all_headers text[], traces text[],
  out positions bigint[], out reached bigint
) language plpgsql as $event$
declare
  many constant bigint := cardinality(types);
begin
  if expected is null then
    insert into {schema}.event_stream as s (stream, version) values (to_stream, many)
    on conflict (stream) do update set version = s.version + many
    returning s.version into reached;
  elsif expected = 0 then
    insert into {schema}.event_stream as s (stream, version) values (to_stream, many)
    on conflict do nothing
    returning s.version into reached;
  else
    update {schema}.event_stream s set version = s.version + many
    where s.stream = to_stream and s.version = expected
    returning s.version into reached;
  end if;
  if reached is null then
    -- Null positions: the stream is at another version.
    select coalesce(max(s.version), 0) into reached from {schema}.event_stream s where s.stream = to_stream;
    return;
  end if;
  if many = 1 then
    -- The usual case: nothing to put in order.
    insert into {schema}.event (stream, version, type, payload, headers, trace)
    values (to_stream, reached, types[1], payloads[1]::json, all_headers[1]::json, traces[1])
    returning array[position] into positions;
    return;
  end if;
  with written as (
    insert into {schema}.event (stream, version, type, payload, headers, trace)
    select to_stream, reached - many + i.place, i.type, i.payload::json, i.headers::json, i.trace
    from unnest(types, payloads, all_headers, traces) with ordinality as i (type, payload, headers, trace, place)
    order by i.place
    returning position
  )
  select array_agg(w.position order by w.position) into positions from written w;
end
$event$;
create or replace function {schema}.event_append(
  stream text, type text, payload json, expected_version bigint default null, headers json default null, trace text default null
) returns bigint language plpgsql as $event$
declare
  done record;
begin
  select * into done from {schema}.event_append_all(event_append.stream, event_append.expected_version, array[event_append.type],
    array[event_append.payload::text], array[event_append.headers::text], array[event_append.trace]);
  if done.positions is null then
    raise exception 'stream % is at version %, not %', event_append.stream, done.reached, event_append.expected_version
      using errcode = 'LC409', hint = 'Read the stream again, decide again, and append again.';
  end if;
  return done.positions[1];
end
$event$
