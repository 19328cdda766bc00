-- dispatch_gated · work_queue → background_job, the lane with limits
-- As in PostgreSQL. Indexes: work_queue_gated, background_job_group, background_job_limit_key.
-- ?1 route, ?2 at most, ?3 node or null, ?4 lease in ms or null, ?5 groups, ?6 keys
delete from temp.next;
insert into temp.next (id, rank, group_id, limit_key)
select w.id, w.rank, w.group_id, w.limit_key
from   manifest_group g
join   work_queue w on w.id in (select x.id from work_queue x
                                where  x.route = ?1 and x.phase = 'ready' and x.gated and x.group_id = g.id
                                order  by x.rank, x.id limit ?2)
where  g.id in (select value from json_each(?5)) and g.enabled;
insert into temp.next (id, rank, group_id, limit_key)
select id, rank, group_id, limit_key from work_queue
where  route = ?1 and phase = 'ready' and gated and group_id is null
order  by rank, id limit ?2;
delete from temp.picked;
-- astray: its key is full, so it is to be held.
insert into temp.picked (id, astray)
with keyed as materialized (
    select n.*, (select k.max - (select count(*) from background_job b where b.limit_key = k.key)
                 from   limit_key k
                 where  k.key = n.limit_key and k.key in (select value from json_each(?6))) as key_places,
           row_number() over (partition by n.limit_key order by n.rank, n.id) as key_turn
    from   temp.next n
),
free as materialized (
    select k.*, row_number() over (partition by k.group_id order by k.rank, k.id) as group_turn
    from   keyed k
    where  k.limit_key is null or k.key_turn <= k.key_places
)
select id, 0 from (
    select f.id from free f left join manifest_group g on g.id = f.group_id
    where  f.group_id is null or g.max_active is null
           or f.group_turn <= g.max_active - (select count(*) from background_job b where b.group_id = g.id)
    order  by f.rank, f.id
    limit  ?2)
union all
select id, 1 from keyed where key_places is not null and key_turn > key_places;
update work_queue set phase = 'held' where id in (select id from temp.picked where astray);
insert into background_job
       (id, {job}, rank, gated, failures, crashes, last_error, cancel_requested_at, was_due_at, leased_by,
        claim_no, claimed_at, started_at, due_at)
select id, {job}, rank, gated, failures, crashes, last_error, cancel_requested_at, due_at, ?3,
       claim_no + (?3 is not null), iif(?3 is null, null, now_us()), iif(?3 is null, null, now_us()),
       now_us() + coalesce(?4, 0) * 1000
from   work_queue where id in (select id from temp.picked where not astray);
delete from work_queue where id in (select id from temp.picked where not astray);
select {claim} from background_job where id in (select p.id from temp.picked p where not p.astray) order by rank, id
