-- enqueue_replace · jobs that hold a unique key and were never claimed get another input, time and priority
-- As in PostgreSQL; there is one writer, so no row is locked. Cross joins keep SQLite from reading the whole queue.
-- ?1 rows of id, kind, input, priority, due, hash of the body, ms to add to that
delete from temp.picked;
insert into temp.picked (id, marked)
select w.id, w.kind = value ->> 1 from json_each(?1) cross join work_queue w on w.id = value ->> 0 where w.claim_no = 0;
update work_queue as w
set    input = iif(octet_length(i.input) <= 512, i.input, null), priority = i.priority, due_at = i.due_at,
       phase = case when w.phase = 'parked' then 'parked' when i.due_at > now_us() then 'later'
                    when w.phase = 'later' then 'ready' else w.phase end,
       rank = {rank(i.due_at, i.priority, {group_priority(w.group_id)})}
from   (select value ->> 0 as id, value ->> 2 as input, value ->> 3 as priority,
               coalesce(value ->> 4, now_us()) + coalesce(value ->> 6, 0) * 1000 as due_at
        from   json_each(?1)) i
where  w.id = i.id and w.id in (select id from temp.picked where marked);
delete from job_payload where job_id in (select id from temp.picked where marked);
insert into job_payload (job_id, input)
select value ->> 0, value ->> 2 from json_each(?1)
where  octet_length(value ->> 2) > 512 and value ->> 0 in (select id from temp.picked where marked);
update job_key as k set body_hash = i.body_hash
from   (select w.unique_key as key, w.id, value ->> 5 as body_hash from json_each(?1) cross join work_queue w on w.id = value ->> 0) i
where  k.key = i.key and k.job_id = i.id and i.id in (select id from temp.picked where marked);
select w.id, w.kind, p.marked as replaced from temp.picked p cross join work_queue w on w.id = p.id
