-- node_beat · a node reports that it is alive, and whether it has led the planning since its last heartbeat
-- As in PostgreSQL.
-- ?1 name, ?2 host, ?3 pid, ?4 incarnation, ?5 version, ?6 roles, ?7 routes, ?8 slots, ?9 runners, ?10 cycles won, ?11 the first of
-- them so many µs ago, ?12 the last of them, ?13 ms to the next beat, or null, ?14 kinds, ?15 whether it
-- takes no work because it drains
insert into lock_event (lock_name, store, what, at, holder, epoch, before)
select 'planner', 'engine', 'taken', max(now_us() - ?11, coalesce(l.acquired_at, 0)), ?2 || '/' || ?3 || '/' || ?4, coalesce(l.epoch, 0) + 1,
       l.machine || '/' || l.pid || '/' || l.incarnation
from   (select 1) left join lock_lease l on l.lock_name = 'planner' and l.store = 'engine'
where  ?10 > 0 and (l.incarnation is null or (l.incarnation <> ?4 and now_us() - ?12 > l.acquired_at));
insert into lock_lease as l (lock_name, store, node, machine, pid, incarnation, kind, epoch, since_at, acquired_at, renewed_at, renew_ms,
                             holds, contended)
select 'planner', 'engine', ?1, ?2, ?3, ?4, 'planner', 1, now_us() - ?11, now_us() - ?12, now_us(), coalesce(?13, 10000), ?10, 0
where  ?10 > 0
on conflict (lock_name, store) do update
set    node = excluded.node, machine = excluded.machine, pid = excluded.pid, incarnation = excluded.incarnation,
       epoch = l.epoch + (l.incarnation <> excluded.incarnation),
       since_at = iif(l.incarnation = excluded.incarnation, l.since_at, max(excluded.since_at, l.acquired_at)),
       acquired_at = excluded.acquired_at, renewed_at = excluded.renewed_at, released_at = null, renew_ms = excluded.renew_ms,
       holds = iif(l.incarnation = excluded.incarnation, l.holds, 0) + excluded.holds
where  excluded.acquired_at > l.acquired_at;
update lock_lease set renewed_at = now_us()
where  lock_name = 'planner' and store = 'engine' and incarnation = ?4 and released_at is null and ?10 = 0;
insert into node (name, host, pid, incarnation, version, roles, routes, slots, runners, kinds, started_at, seen_at, takes_nothing, beat_ms)
values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?14, now_us(), now_us(), ?15, ?13)
on conflict (incarnation) do update
set    host = excluded.host, kinds = excluded.kinds, roles = excluded.roles, routes = excluded.routes, slots = excluded.slots, runners = excluded.runners, seen_at = now_us(), beat_ms = excluded.beat_ms,
       takes_nothing = excluded.takes_nothing and drain_at is not null
returning id, seen_at as now, (select coalesce(max(s.version), 0) from setting s) as settings, drain_at is not null as drains,
          exists (select 1 from lock_lease l where l.lock_name = 'planner' and l.store = 'engine' and l.incarnation = ?4 and l.holds = ?10)
          as took_lead
