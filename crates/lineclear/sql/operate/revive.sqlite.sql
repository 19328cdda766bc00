-- revive · dead_letter → work_queue, with its counters at zero and its claim number kept
-- As in PostgreSQL.
-- ?1 dead letters, ?2 by whom, ?3 due (null: now), ?4 new input (null: as it was), ?5 note, ?6 ms to add to due
delete from temp.picked;
insert into temp.picked (id, marked)
select id, 0 from dead_letter where id in (select value from json_each(?1)) and status = 'awaiting';
update dead_letter
set    status = 'revived', resolved_at = now_us(), resolved_by = ?2, note = ?5,
       input = case when ?4 is null then input when octet_length(?4) <= 512 then ?4 end
where  id in (select id from temp.picked);
insert into job_payload (job_id, input)
select job_id, ?4 from dead_letter where id in (select id from temp.picked) and octet_length(?4) > 512
on conflict (job_id) do update set input = excluded.input;
delete from job_step
where  ?4 is not null and job_id in (select d.job_id from temp.picked p cross join dead_letter d on d.id = p.id);
insert into work_queue (id, {job}, fresh, due_at, phase, rank, gated, claim_no)
select r.job_id, {r.job}, 0, d.due_at, {phase(d.due_at)},
       {rank(d.due_at, r.priority, g.priority)},
       coalesce(g.gated, 0) or r.limit_key is not null, r.claim_no
from   dead_letter r cross join (select coalesce(?3, now_us()) + coalesce(?6, 0) * 1000 as due_at) d
       left join manifest_group g on g.id = r.group_id
where  r.id in (select id from temp.picked);
select id, job_id, manifest_id from dead_letter where id in (select id from temp.picked) order by id
