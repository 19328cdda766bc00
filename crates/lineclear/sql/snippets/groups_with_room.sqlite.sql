-- groups_with_room · groups whose gated jobs are next in rank and that have room
-- ?1 route, ?2 at most
with recursive {waiting_groups(?1)}
select id from (
    select g.id, (select w.rank from work_queue w
                  where  w.route = ?1 and w.phase = 'ready' and w.gated and w.group_id = g.id
                  order  by w.rank, w.id limit 1) as head
    from   waiting cross join manifest_group g on g.id = waiting.group_id
    where  {has_room})
where  head is not null
order  by head, id
limit  ?2
