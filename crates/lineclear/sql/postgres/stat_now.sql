-- stat_now · how much waits, runs and needs a person, right now
--
-- Nothing is counted further than $1: with a million waiting jobs this costs no more than with ten thousand. Who waits longest is
-- looked for among the first in line.
-- Indexes: work_queue_open, work_queue_gated, background_job_lease, dead_letter_status, node_seen.
-- $1 count so far
select (select count(*) from (select 1 from {schema}.work_queue limit $1::bigint) w) as waiting,
       (select count(*) from (select 1 from {schema}.work_queue where phase = 'ready' and not gated limit $1::bigint) w)
       + (select count(*) from (select 1 from {schema}.work_queue where phase = 'ready' and gated limit $1::bigint) w) as due,
       (select count(*) from (select 1 from {schema}.background_job where leased_by is not null limit $1::bigint) b) as running,
       (select count(*) from (select 1 from {schema}.dead_letter where status = 'awaiting' limit $1::bigint) d) as dead_letters,
       (select count(*) from {schema}.node where seen_at > now() - interval '30 seconds') as nodes,
       (select least(min(o.due_at), min(g.due_at))
        from   (select min(due_at) as due_at from (select due_at from {schema}.work_queue where phase = 'ready' and not gated
                                                   order by route, rank, id limit 1000) f) o,
               (select min(due_at) as due_at from (select due_at from {schema}.work_queue where phase = 'ready' and gated
                                                   order by route, group_id, rank, id limit 1000) f) g) as oldest_due_at,
       now() as now
