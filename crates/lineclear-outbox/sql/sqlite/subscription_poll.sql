-- subscription_poll · the checkpoints of a subscription, and the last position that is drawn
-- ?1 name. One row without a version if there is no such subscription
select m.last, '[]' as holders, c.version, c.active, c.position, c.state, c.swaps, c.failed_position, c.failures,
  coalesce(c.retry_at - cast(unixepoch('subsec') * 1000000 as integer), 0) as retry_us,
  exists (select 1 from lineclear_subscription_parked p where p.name = c.name and p.version = c.version and p.replays = 1) as replays
from (select coalesce((select seq from sqlite_sequence where name = 'lineclear_event'), 0) as last) m
left join lineclear_subscription_checkpoint c on c.name = ?1
