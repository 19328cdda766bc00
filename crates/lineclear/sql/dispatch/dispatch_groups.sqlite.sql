-- dispatch_groups · the groups of gated jobs that are next in rank and have room
-- ?1 route, ?2 at most
with recursive waiting (group_id) as (
    select * from (select group_id from work_queue
                   where  route = ?1 and phase = 'ready' and gated and group_id is not null order by group_id limit 1)
    union all
    select (select w.group_id from work_queue w
            where  w.route = ?1 and w.phase = 'ready' and w.gated and w.group_id > waiting.group_id
            order  by w.group_id limit 1)
    from   waiting where waiting.group_id is not null
)
select id from (
    select g.id, (select w.rank from work_queue w
                  where  w.route = ?1 and w.phase = 'ready' and w.gated and w.group_id = g.id
                  order  by w.rank, w.id limit 1) as head
    from   waiting cross join manifest_group g on g.id = waiting.group_id
    where  g.enabled
           and (g.max_active is null or g.max_active > (select count(*) from background_job where group_id = g.id)))
where  head is not null
order  by head, id
limit  ?2
