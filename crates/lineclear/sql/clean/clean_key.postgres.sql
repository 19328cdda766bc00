-- clean_key · unique keys whose time is over
-- A key whose job still lives holds on until the job is over, as a key without a time does: it becomes one, so that it is read
-- here once, and not with every cleaning. Index: job_key_old. `seen`: removed, or made so.
-- $1 at most
with expired as materialized (
    select key, job_id from {schema}.job_key
    where  until <= now() order by until limit $1::bigint for update skip locked
),
gone as (
    delete from {schema}.job_key where key = any (array (select key from expired where {job_is_nowhere(expired.job_id)}))
    returning key
),
kept as (
    update {schema}.job_key set until = null
    where  key = any (array (select key from expired except all select key from gone))
)
select (select count(*) from gone) as cleaned, (select count(*) from expired) as seen
