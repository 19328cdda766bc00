-- note_success · the last success of manifests whose states were held when their jobs were settled
-- A later success is kept. Returned: manifests whose states were free, written or not; the caller says the others again.
-- $1.. manifest, job, how many ms ago, output
with input as materialized (
    select * from unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::text[]) as i (manifest_id, job_id, ago_ms, output)
),
free as materialized (
    select s.manifest_id from {schema}.manifest_state s
    where  s.manifest_id = any (array (select manifest_id from input))
    order  by s.manifest_id for no key update skip locked
),
noted as (
    update {schema}.manifest_state as s
    set    last_success_at = now() - i.ago_ms * interval '1 millisecond', last_success_job_id = i.job_id, last_output = i.output
    from   input i
    where  s.manifest_id = i.manifest_id and s.manifest_id = any (array (select manifest_id from free))
           and (s.last_success_at is null or s.last_success_at < now() - i.ago_ms * interval '1 millisecond')
)
select manifest_id from free
union
select i.manifest_id from input i where not exists (select from {schema}.manifest_state s where s.manifest_id = i.manifest_id)
