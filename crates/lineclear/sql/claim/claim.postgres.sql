-- claim · background_job, ready → leased
--
-- claim_no only ever grows. Every later write names it, so a worker that was paused past its lease changes nothing.
-- Why not an IN-subquery: with LIMIT inside, the planner may run it more than once and take more than asked.
-- Index: background_job_ready. Locks: the taken rows; others' are skipped. Zero rows: nothing is ready on the route.
-- $1 route, $2 at most, $3 node, $4 lease in ms
with taken as (
    update {schema}.background_job
    set    leased_by = $3::bigint, claim_no = claim_no + 1, claimed_at = clock_timestamp(),
           started_at = case when crashes = 0 then clock_timestamp() end,
           due_at = clock_timestamp() + $4::bigint * interval '1 millisecond'
    where  id = any (array (
               select id from {schema}.background_job
               where  route = $1::text and leased_by is null
               order  by rank, id
               limit  $2::bigint
               for    update skip locked))
    returning *
)
select {claim}, {durable} as durable from taken order by rank, id
