-- transfer_leases · leases of a node go to workers or submitters; fenced by (id, claim_no)
-- A new lease begins. A row that another transaction holds is skipped: to its worker, the claim is lost.
-- Returned: the claims that were transferred.
-- deadline_at: when a job that a submitter has accepted is over (overdue_accepted). A worker that pulls ends its jobs itself.
-- $1 the node, $2 ms from the start of each job to its deadline or null, $3.. job, claim number, new holder, lease in ms, id in the other system or null
with input as materialized (
    select * from unnest($3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[], $7::text[])
             as i (id, claim_no, holder, lease_ms, external_id)
),
own as materialized (
    select b.id from {schema}.background_job b join input i on i.id = b.id and i.claim_no = b.claim_no
    where  b.leased_by = $1::bigint
    order  by b.id
    for    no key update of b skip locked
),
kept as materialized (
    select {durable} as durable
)
update {schema}.background_job as b
set    leased_by = i.holder, due_at = clock_timestamp() + i.lease_ms * interval '1 millisecond',
       external_id = i.external_id, started_at = coalesce(b.started_at, clock_timestamp()),
       deadline_at = coalesce(b.started_at, clock_timestamp()) + $2::bigint * interval '1 millisecond'
from   input i, kept
where  b.id = i.id and b.id = any (array (select id from own))
returning b.id, b.claim_no
