-- dispatch_open · work_queue → background_job, the lane without limits
-- As in PostgreSQL. One writer at a time: no row can be locked by another.
-- Indexes: work_queue_open, work_queue_gated. Always one row at least: with a null id if nothing was taken.
-- ?1 route, ?2 at most, ?3 node or null, ?4 lease in ms or null, ?5 caller holds the global gate, ?6 bounded,
-- ?7 rank to begin at, ?8 read all groups, ?9 look at these groups, ?10 at most so many with room, ?11 leased ahead of a free slot
delete from temp.head;
insert into temp.head (id, rank)
with recursive waiting (group_id) as (
    select * from (select group_id from work_queue
                   where  ?8 and route = ?1 and phase = 'ready' and gated and group_id is not null order by group_id limit 1)
    union all
    select (select w.group_id from work_queue w
            where  w.route = ?1 and w.phase = 'ready' and w.gated and w.group_id > waiting.group_id
            order  by w.group_id limit 1)
    from   waiting where waiting.group_id is not null
)
-- Of every group that was read; the rank only of those that have room.
select asked.group_id,
       (select (select w.rank from work_queue w
                where  w.route = ?1 and w.phase = 'ready' and w.gated and w.group_id = g.id
                order  by w.rank, w.id limit 1)
        from   manifest_group g where g.id = asked.group_id and {has_room})
from   (select group_id from waiting where group_id is not null union select value from json_each(?9)) asked;
delete from temp.gate;
insert into temp.gate (closed, gated_rank, waiting, with_room)
select exists (select 1 from manifest_group where name = '*' and gated),
       (select min(rank) from (
            select rank from temp.head
            union all
            select * from (select rank from work_queue
                           where  route = ?1 and phase = 'ready' and gated and group_id is null
                           order  by group_id, rank, id limit 1))),
       iif(?8, (select count(*) from temp.head), 0),
       (select json_group_array(id) from (select id from temp.head where rank is not null order by rank, id limit ?10));
delete from temp.picked;
insert into temp.picked (id, marked)
select id, group_id is not null and exists (select 1 from manifest_group g where g.id = work_queue.group_id and g.gated)
from   work_queue
where  route = ?1 and phase = 'ready' and not gated
       and (?5 or not (select closed from temp.gate))
       and rank >= ?7
       and rank <= iif(?6, coalesce((select gated_rank from temp.gate), 9223372036854775807), 9223372036854775807)
order  by rank, id
limit  ?2;
update work_queue set gated = 1 where id in (select id from temp.picked where marked);
{hand_over(?3, ?4, ?11)}
from   work_queue where id in (select id from temp.picked where not marked);
delete from work_queue where id in (select id from temp.picked where not marked);
select closed, gated_rank, waiting, with_room,
       (select json_group_array(group_id) from (select distinct group_id from work_queue
                                                where  id in (select id from temp.picked where marked))) as refiled,
       (select 1 from background_job b where b.route = ?1 and b.leased_by is null
        order by b.rank, b.id limit 1) is not null as handed, rank, {claim}
from   temp.gate
left   join background_job on id in (select p.id from temp.picked p where not p.marked)
order  by rank, id
