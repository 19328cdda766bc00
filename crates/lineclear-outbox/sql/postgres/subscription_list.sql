-- subscription_list · subscriptions: the active checkpoint of each, its rebuild, and how far it is behind
-- $1 name or null, $2 count no further
select c.name, c.version::bigint as version, c.kind, c.state, c.reason, c.position, c.handled, c.failed_position,
  c.failures::bigint as failures, c.last_error, (extract(epoch from c.failed_at) * 1000000)::bigint as failed_us,
  (extract(epoch from c.updated_at) * 1000000)::bigint as updated_us,
  h.head, (select count(*) from (select from {schema}.event where position > c.position limit $2::bigint) e) as lag_events,
  coalesce((select greatest((extract(epoch from clock_timestamp() - e.created_at) * 1000000)::bigint, 0) from {schema}.event e
            where e.position > c.position order by e.position limit 1), 0) as lag_us,
  (select count(*) from (select from {schema}.subscription_parked p
                         where p.name = c.name and p.version = c.version limit $2::bigint) p) as parked,
  r.version::bigint as rebuild_version, r.position as rebuild_position, r.state as rebuild_state, r.swaps as rebuild_swaps,
  r.last_error as rebuild_error,
  (select count(*) from (select from {schema}.event where position > r.position limit $2::bigint) e) as rebuild_lag
from {schema}.subscription_checkpoint c
left join {schema}.subscription_checkpoint r on r.name = c.name and not r.active,
lateral (select coalesce(max(position), 0) as head from {schema}.event) h
where c.active and ($1::text is null or c.name = $1::text)
order by c.name
limit 1000
