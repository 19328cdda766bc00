-- groups_with_room · those of some groups that have room, by the rank of their next gated job
-- ?1 route, ?2 at most, ?3 groups
select id from (
    select g.id, (select w.rank from work_queue w
                  where  w.route = ?1 and w.phase = 'ready' and w.gated and w.group_id = g.id
                  order  by w.rank, w.id limit 1) as head
    from   json_each(?3) asked cross join manifest_group g on g.id = asked.value
    where  {has_room})
where  head is not null
order  by head, id
limit  ?2
