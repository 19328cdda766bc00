-- node_beat · a node reports that it is alive, and whether it has led the planning since its last heartbeat
-- The first heartbeat assigns its id. A node leads until another node wins a later cycle: its tenure is a row of lock_lease, a
-- change of leader an event. Nothing else writes these, and a node that did not lead writes only its own row.
-- $1 name, $2 host, $3 pid, $4 incarnation, $5 version, $6 roles, $7 routes, $8 slots, $9 runners, $10 cycles won, $11 the first of
-- them so many µs ago, $12 the last of them, $13 ms to the next beat, or null, $14 kinds, $15 whether it
-- takes no work because it drains
with before as materialized (
    select incarnation, machine || '/' || pid || '/' || incarnation as holder
    from   {schema}.lock_lease
    where  lock_name = 'planner' and store = 'engine' and $10::bigint > 0
    for    update
), led as (
    insert into {schema}.lock_lease as l (lock_name, store, node, machine, pid, incarnation, kind, epoch, since_at, acquired_at,
                                          renewed_at, renew_ms, holds, contended)
    select 'planner', 'engine', $1::text, $2::text, $3::bigint, $4::text, 'planner', 1, now() - $11::bigint * interval '1 microsecond',
           now() - $12::bigint * interval '1 microsecond', now(), coalesce($13::bigint, 10000), $10::bigint, 0
    -- Read before it is written: a row that this statement has changed cannot be locked any more.
    from   (select count(*) as known from before) b
    where  $10::bigint > 0 and b.known >= 0
    on conflict (lock_name, store) do update
    set    node = excluded.node, machine = excluded.machine, pid = excluded.pid, incarnation = excluded.incarnation,
           epoch = l.epoch + case when l.incarnation = excluded.incarnation then 0 else 1 end,
           since_at = case when l.incarnation = excluded.incarnation then l.since_at else greatest(excluded.since_at, l.acquired_at) end,
           acquired_at = excluded.acquired_at, renewed_at = excluded.renewed_at, released_at = null, renew_ms = excluded.renew_ms,
           holds = case when l.incarnation = excluded.incarnation then l.holds else 0 end + excluded.holds
    where  excluded.acquired_at > l.acquired_at
    returning l.epoch, l.since_at
), handed as (
    insert into {schema}.lock_event (lock_name, store, what, at, holder, epoch, before)
    select 'planner', 'engine', 'taken', led.since_at, $2 || '/' || $3 || '/' || $4, led.epoch, b.holder
    from   led left join before b on true
    where  b.incarnation is distinct from $4
), still as (
    update {schema}.lock_lease set renewed_at = now()
    where  lock_name = 'planner' and store = 'engine' and incarnation = $4 and released_at is null and $10 = 0
)
insert into {schema}.node as n (name, host, pid, incarnation, version, roles, routes, slots, runners, kinds, takes_nothing, beat_ms)
values ($1::text, $2::text, $3::bigint, $4::text, $5::text, $6::text, $7::text, $8::bigint, $9::text, $14::text, $15::boolean, $13::bigint)
on conflict (incarnation) do update
set    host = excluded.host, kinds = excluded.kinds, roles = excluded.roles, routes = excluded.routes, slots = excluded.slots, runners = excluded.runners, seen_at = now(),
       beat_ms = excluded.beat_ms,
       takes_nothing = excluded.takes_nothing and n.drain_at is not null
returning id, now() as now, (select coalesce(max(s.version), 0) from {schema}.setting s) as settings, n.drain_at is not null as drains,
          exists (select from led left join before b on true where b.incarnation is distinct from $4) as took_lead
