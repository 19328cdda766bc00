-- dispatch_gated · work_queue → background_job, the lane with limits
-- As in PostgreSQL. Indexes: work_queue_gated, background_job_group, background_job_limit_key.
-- ?1 route, ?2 at most, ?3 node or null, ?4 lease in ms or null, ?5 groups, ?6 keys, ?7 look at so many
delete from temp.next;
insert into temp.next (id, rank, group_id, limit_key)
select w.id, w.rank, w.group_id, w.limit_key
from   manifest_group g
join   work_queue w on w.id in (select x.id from work_queue x
                                where  x.route = ?1 and x.phase = 'ready' and x.gated and x.group_id = g.id
                                order  by x.rank, x.id limit ?7)
where  g.id in (select value from json_each(?5)) and g.enabled;
insert into temp.next (id, rank, group_id, limit_key)
select id, rank, group_id, limit_key from work_queue
where  route = ?1 and phase = 'ready' and gated and group_id is null
order  by group_id, rank, id limit ?7;
delete from temp.picked;
-- marked: its key is full, so dispatch holds it.
insert into temp.picked (id, marked)
with fits as materialized (
    select n.* from (
        select next.*, row_number() over (partition by group_id order by rank, id) as group_turn from temp.next
    ) n left join manifest_group g on g.id = n.group_id
    where  n.group_id is null or g.max_active is null
           or n.group_turn <= g.max_active - (select count(*) from background_job b where b.group_id = g.id)
),
keyed as materialized (
    select f.id, f.rank, f.limit_key,
           (select k.max - (select count(*) from background_job b where b.limit_key = k.key)
            from   limit_key k
            where  k.key = f.limit_key and k.key in (select value from json_each(?6))) as places,
           row_number() over (partition by f.limit_key order by f.rank, f.id) as key_turn
    from   fits f
)
select id, 0 from (select id from keyed where limit_key is null or key_turn <= places order by rank, id limit ?2)
union all
select id, 1 from keyed where key_turn > places;
update work_queue set phase = 'held' where id in (select id from temp.picked where marked);
{hand_over(?3, ?4, 0)}
from   work_queue where id in (select id from temp.picked where not marked);
delete from work_queue where id in (select id from temp.picked where not marked);
select (select count(*) from temp.picked where marked) as held, {claim}
from   (select 1) one left join background_job on id in (select p.id from temp.picked p where not p.marked)
order  by rank, id
