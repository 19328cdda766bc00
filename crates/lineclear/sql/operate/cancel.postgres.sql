-- cancel · a job that waits ends here; one that runs is asked to stop
--
-- This snapshot misses a job that moves from one table to the other: zero rows then mean "try again", and the
-- caller does, with a new statement.
-- The last execution of a waiting job takes the next claim number.
-- Rows are locked in the order of their ids.
-- $1 jobs
with waiting as (
    delete from {schema}.work_queue
    where  id = any (array (select id from {schema}.work_queue where id = any ($1::bigint[]) order by id for update))
    returning id, {history}, claim_no, due_at, limit_key, unique_key, input
),
ready as (
    delete from {schema}.background_job
    where  id = any (array (select id from {schema}.background_job where id = any ($1::bigint[]) and leased_by is null
                            order by id for update))
    returning id, {history}, claim_no, was_due_at as due_at, limit_key, unique_key, input
),
over as materialized (
    select * from waiting union all select * from ready
),
asked as (
    update {schema}.background_job set cancel_requested_at = coalesce(cancel_requested_at, now())
    where  id = any (array (select id from {schema}.background_job where id = any ($1::bigint[]) and leased_by is not null
                            order by id for update))
    returning id, leased_by
),
noted as (
    insert into {schema}.execution
           (job_id, claim_no, final, outcome, {history}, input, due_at, finished_at)
    select id, claim_no + 1, true, 'cancelled', {history}, input, due_at, now()
    from   over
),
freed as (
    {free_keys((select unique_key, id from over))}
)
select id, true as over, null::bigint as leased_by, limit_key from over
union all
select id, false, leased_by, null from asked
