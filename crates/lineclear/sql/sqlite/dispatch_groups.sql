-- dispatch_groups · the gated groups that are next in rank and have room
-- ?1 route, ?2 at most
select id from (
    select g.id, (select w.rank from work_queue w
                  where  w.route = ?1 and w.phase = 'ready' and w.gated and w.group_id = g.id
                  order  by w.rank, w.id limit 1) as head
    from   manifest_group g
    where  g.gated and g.enabled and g.name <> '*'
           and (g.max_active is null or g.max_active > (select count(*) from background_job where group_id = g.id)))
where  head is not null
order  by head, id
limit  ?2
