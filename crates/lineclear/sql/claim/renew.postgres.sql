-- renew · extend all leases of a node in one statement
--
-- The fence is the claim number, not the time: a lease that ran out but was not reclaimed is renewed as well. A row that
-- another transaction has locked (to reclaim, settle or cancel it) is skipped and not lost yet; waiting for it
-- could deadlock with a settle of the same rows.
-- Per row: renewed, skipped, or lost (another claim has it, or it is over); and whether a cancel was requested.
-- deadline_at is set with the first renewal: shorter jobs never need one.
-- A job that was leased ahead of a free slot has no started_at until its handler is seen running by a renewal.
-- $1 node, $2 lease in ms, $3.. job, claim number, ms from its start to its deadline or null, ms since its handler began or null
with input as materialized (
    select * from unnest($3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[]) as i (id, claim_no, deadline_ms, ran_ms)
),
renewed as (
    update {schema}.background_job as r
    set    due_at = clock_timestamp() + $2::bigint * interval '1 millisecond',
           started_at = coalesce(r.started_at, clock_timestamp() - i.ran_ms * interval '1 millisecond'),
           deadline_at = coalesce(r.deadline_at, coalesce(r.started_at, clock_timestamp() - i.ran_ms * interval '1 millisecond')
                                                 + i.deadline_ms * interval '1 millisecond')
    from   input i
    where  i.id = r.id and r.id = any (array (
               select b.id from {schema}.background_job b join input i on i.id = b.id and i.claim_no = b.claim_no
               where  b.leased_by = $1::bigint
               order  by b.id
               for    no key update of b skip locked))
    returning r.id, r.claim_no, r.cancel_requested_at
)
select i.id, i.claim_no,
       case when r.id is not null then 'renewed' when b.id is not null then 'skipped' else 'lost' end as status,
       coalesce(r.cancel_requested_at, b.cancel_requested_at) is not null as cancel
from   input i
left   join renewed r on r.id = i.id and r.claim_no = i.claim_no
left   join {schema}.background_job b on b.id = i.id and b.claim_no = i.claim_no and b.leased_by = $1::bigint
order  by i.id
