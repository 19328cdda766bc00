-- clean_history · jobs that ended long enough ago, with their history, payload, steps and log lines
-- As in PostgreSQL. Indexes: execution_completed, execution_ended.
-- ?1 keep completed so many ms, ?2 keep others so many ms, ?3 at most
delete from temp.picked;
insert into temp.picked (id, marked)
select e.job_id, 0 from execution e
where  e.final and e.outcome = 'completed' and e.finished_at < now_us() - ?1 * 1000
       and not exists (select 1 from manifest_state s where s.manifest_id = e.manifest_id and s.last_success_job_id = e.job_id)
order  by e.finished_at limit ?3;
insert into temp.picked (id, marked)
select e.job_id, 0 from execution e
where  e.final and e.outcome <> 'completed' and e.finished_at < now_us() - ?2 * 1000
order  by e.finished_at limit ?3;
delete from job_payload where job_id in (select id from temp.picked);
delete from job_step where job_id in (select id from temp.picked);
delete from turn_parent where job_id in (select id from temp.picked);
delete from execution_log where job_id in (select id from temp.picked);
delete from execution where job_id in (select id from temp.picked);
select changes() as cleaned
