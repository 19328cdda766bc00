-- clean_history · jobs that ended long enough ago, with their history, payload, steps and log lines
--
-- Chosen by the row that ended the job, so the tries of a job that still waits are never touched; nor is the last
-- success of a manifest. SKIP LOCKED: two cleaners share the work.
-- Indexes: execution_completed, execution_ended. Zero: nothing is old enough.
-- $1 keep completed so many ms, $2 keep others so many ms, $3 at most
with completed as materialized (
    select e.job_id from {schema}.execution e
    where  e.final and e.outcome = 'completed' and e.finished_at < now() - $1::bigint * interval '1 millisecond'
           and not exists (select from {schema}.manifest_state s
                           where  s.manifest_id = e.manifest_id and s.last_success_job_id = e.job_id)
    order  by e.finished_at limit $3::bigint for update of e skip locked
),
ended as materialized (
    select e.job_id from {schema}.execution e
    where  e.final and e.outcome <> 'completed' and e.finished_at < now() - $2::bigint * interval '1 millisecond'
    order  by e.finished_at limit $3::bigint for update of e skip locked
),
old as materialized (
    select job_id from completed union all select job_id from ended
),
gone as (
    delete from {schema}.execution where job_id = any (array (select job_id from old)) returning job_id
),
payload as (
    delete from {schema}.job_payload where job_id = any (array (select job_id from old))
),
steps as (
    delete from {schema}.job_step where job_id = any (array (select job_id from old))
),
lines as (
    delete from {schema}.execution_log where job_id = any (array (select job_id from old))
),
turns as (
    delete from {schema}.turn_parent where job_id = any (array (select job_id from old))
)
select count(*) as cleaned from gone
