-- groups_with_room · those of some groups that have room, by the rank of their next gated job
-- $1 route, $2 at most, $3 groups
select g.id
from   {schema}.manifest_group g
cross  join lateral (
           select rank from {schema}.work_queue
           where  route = $1::text and phase = 'ready' and gated and group_id = g.id
           order  by rank, id limit 1) head
where  g.id = any ($3::bigint[]) and {has_room}
order  by head.rank, g.id
limit  $2::bigint
