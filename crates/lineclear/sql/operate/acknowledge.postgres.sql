-- acknowledge · a person closes a dead letter without reviving it
-- The job is over, so its unique key is free. A missing row: not awaiting (any more).
-- $1 dead letters, $2 by whom, $3 note
with chosen as materialized (
    select id from {schema}.dead_letter where id = any ($1::bigint[]) and status = 'awaiting' order by id for update
),
resolved as (
    update {schema}.dead_letter
    set    status = 'acknowledged', resolved_at = now(), resolved_by = $2::text, note = $3::text
    where  id = any (array (select id from chosen))
    returning id, job_id, manifest_id, unique_key
),
freed as (
    {free_keys((select unique_key, job_id from resolved))}
)
select id, job_id, manifest_id from resolved order by id
