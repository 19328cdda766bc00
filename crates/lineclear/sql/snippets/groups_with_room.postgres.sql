-- groups_with_room · groups whose gated jobs are next in rank and that have room
-- $1 route, $2 at most
with recursive {waiting_groups($1::text)}
select g.id
from   waiting
join   {schema}.manifest_group g on g.id = waiting.group_id
cross  join lateral (
           select rank from {schema}.work_queue
           where  route = $1::text and phase = 'ready' and gated and group_id = g.id
           order  by rank, id limit 1) head
where  {has_room}
order  by head.rank, g.id
limit  $2::bigint
