-- subscription_poll · the checkpoints of a subscription, the last position that is drawn, and the transactions that hold back the mark
-- $1 name. One row without a version if there is no such subscription
select m.last, m.holders, c.version, c.active, c.position, c.state, c.swaps, c.failed_position, c.failures::bigint as failures,
  coalesce((extract(epoch from c.retry_at - clock_timestamp()) * 1000000)::bigint, 0) as retry_us,
  exists (select from {schema}.subscription_parked p where p.name = c.name and p.version = c.version and p.replays) as replays
from {schema}.event_mark() m
left join {schema}.subscription_checkpoint c on c.name = $1::text
