-- subscription_list · subscriptions: the active checkpoint of each, its rebuild, and how far it is behind
-- ?1 name or null, ?2 count no further
select c.name, c.version, c.kind, c.state, c.reason, c.position, c.handled, c.failed_position, c.failures, c.last_error,
  c.failed_at as failed_us, c.updated_at as updated_us,
  coalesce((select max(position) from lineclear_event), 0) as head,
  (select count(*) from (select 1 from lineclear_event where position > c.position limit ?2)) as lag_events,
  coalesce((select max(cast(unixepoch('subsec') * 1000000 as integer) - e.created_at, 0) from lineclear_event e where e.position > c.position order by e.position limit 1), 0) as lag_us,
  (select count(*) from (select 1 from lineclear_subscription_parked p where p.name = c.name and p.version = c.version limit ?2)) as parked,
  r.version as rebuild_version, r.position as rebuild_position, r.state as rebuild_state, r.swaps as rebuild_swaps,
  r.last_error as rebuild_error,
  (select count(*) from (select 1 from lineclear_event where position > r.position limit ?2)) as rebuild_lag
from lineclear_subscription_checkpoint c
left join lineclear_subscription_checkpoint r on r.name = c.name and r.active = 0
where c.active = 1 and (?1 is null or c.name = ?1)
order by c.name
limit 1000
