-- clean_dead_letter · dead letters resolved long enough ago; an acknowledged one takes its job's history, steps and log lines along
-- Index: dead_letter_resolved. Awaiting ones are never touched.
-- ?1 keep so many ms, ?2 at most
delete from temp.picked;
insert into temp.picked (id, marked)
select id, status = 'acknowledged' from dead_letter
where  status <> 'awaiting' and resolved_at < now_us() - ?1 * 1000
order  by resolved_at limit ?2;
delete from execution
where  job_id in (select d.job_id from temp.picked p cross join dead_letter d on d.id = p.id where p.marked);
delete from job_payload
where  job_id in (select d.job_id from temp.picked p cross join dead_letter d on d.id = p.id where p.marked);
delete from job_step
where  job_id in (select d.job_id from temp.picked p cross join dead_letter d on d.id = p.id where p.marked);
delete from turn_parent
where  job_id in (select d.job_id from temp.picked p cross join dead_letter d on d.id = p.id where p.marked);
delete from execution_log
where  job_id in (select d.job_id from temp.picked p cross join dead_letter d on d.id = p.id where p.marked);
delete from dead_letter where id in (select id from temp.picked);
select changes() as cleaned
