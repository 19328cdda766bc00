-- waiting_groups(route) · a CTE `waiting`: the groups with gated jobs that are ready on a route
waiting (group_id) as (
    select * from (select group_id from work_queue
                   where  route = {route} and phase = 'ready' and gated and group_id is not null order by group_id limit 1)
    union all
    select (select w.group_id from work_queue w
            where  w.route = {route} and w.phase = 'ready' and w.gated and w.group_id > waiting.group_id
            order  by w.group_id limit 1)
    from   waiting where waiting.group_id is not null
)
