-- take_back · a node that was taken for dead takes back the crashes that its lost claims were charged with
--
-- Only for jobs that still wait or run: what a job that is over was charged with decides nothing any more. The execution says from
-- then on that its worker was late, so that no charge is taken back twice.
-- Waits for nothing: a job whose row another transaction holds is left for later.
-- Per claim: taken_back, later (its row is held), or none (it was not charged, or its job is over).
-- Indexes: execution_once, work_queue_pkey, background_job_pkey.
-- $1 node, $2.. job, claim number
with input as materialized (
    select * from unnest($2::bigint[], $3::bigint[]) as i (id, claim_no)
),
charged as materialized (
    select e.job_id as id, e.claim_no
    from   input i join {schema}.execution e on e.job_id = i.id and e.claim_no = i.claim_no
    where  e.node = $1::bigint and e.outcome = 'lost' and e.error_type = 'worker_lost'
),
waiting as materialized (
    select id from {schema}.work_queue where id = any (array (select id from charged)) order by id for no key update skip locked
),
running as materialized (
    select id from {schema}.background_job where id = any (array (select id from charged)) order by id for no key update skip locked
),
waits as (
    update {schema}.work_queue w
    set    crashes = greatest(w.crashes - (select count(*) from charged c where c.id = w.id), 0)
    where  w.id = any (array (select id from waiting))
    returning w.id
),
runs as (
    update {schema}.background_job b
    set    crashes = greatest(b.crashes - (select count(*) from charged c where c.id = b.id), 0)
    where  b.id = any (array (select id from running))
    returning b.id
),
late as (
    update {schema}.execution e
    set    error_type = 'worker_late', error_message = 'the worker was taken for dead, and came back'
    from   charged c
    where  e.job_id = c.id and e.claim_no = c.claim_no
           and (c.id in (select id from waits) or c.id in (select id from runs))
    returning e.job_id, e.claim_no
)
select i.id, i.claim_no,
       case when l.job_id is not null then 'taken_back'
            when c.id is not null and (exists (select from {schema}.work_queue w where w.id = i.id)
                                       or exists (select from {schema}.background_job b where b.id = i.id)) then 'later'
            else 'none' end as status
from   input i
left   join charged c on c.id = i.id and c.claim_no = i.claim_no
left   join late l on l.job_id = i.id and l.claim_no = i.claim_no
order  by i.id, i.claim_no
