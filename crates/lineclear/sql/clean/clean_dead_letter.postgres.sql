-- clean_dead_letter · dead letters resolved long enough ago; an acknowledged one takes its job's history, steps and log lines along
-- Index: dead_letter_resolved. Awaiting ones are never touched.
-- $1 keep so many ms, $2 at most
with old as materialized (
    select id from {schema}.dead_letter
    where  status <> 'awaiting' and resolved_at < now() - $1::bigint * interval '1 millisecond'
    order  by resolved_at limit $2::bigint for update skip locked
),
gone as (
    delete from {schema}.dead_letter where id = any (array (select id from old)) returning job_id, status
),
history as (
    delete from {schema}.execution where job_id = any (array (select job_id from gone where status = 'acknowledged'))
),
payload as (
    delete from {schema}.job_payload where job_id = any (array (select job_id from gone where status = 'acknowledged'))
),
steps as (
    delete from {schema}.job_step where job_id = any (array (select job_id from gone where status = 'acknowledged'))
),
lines as (
    delete from {schema}.execution_log where job_id = any (array (select job_id from gone where status = 'acknowledged'))
),
turns as (
    delete from {schema}.turn_parent where job_id = any (array (select job_id from gone where status = 'acknowledged'))
)
select count(*) as cleaned from gone
