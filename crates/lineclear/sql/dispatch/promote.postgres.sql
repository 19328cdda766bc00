-- promote · later → ready, for jobs whose time has come, in rank order
--
-- Rows that are not due stay out of the index that dispatch walks; any node brings due ones in, a batch at a time. Among jobs of one
-- urgency the rank follows the time, so the first due ones of each urgency contain the first in rank. Up to 64 urgencies are read; what
-- has another one comes with the oldest jobs, of which a short batch contains all.
-- `due`: jobs that were found; more than were promoted: there are others, or some are locked.
-- Indexes: work_queue_urgency, work_queue_later. Zero: nothing became due.
-- $1 at most
with recursive urgency (us, n) as (
    (select {urgency(due_at, rank)}, 1 from {schema}.work_queue where phase = 'later' order by {urgency(due_at, rank)} desc limit 1)
    union all
    select (select {urgency(w.due_at, w.rank)} from {schema}.work_queue w
            where  w.phase = 'later' and {urgency(w.due_at, w.rank)} < urgency.us
            order  by {urgency(w.due_at, w.rank)} desc limit 1), n + 1
    from   urgency where urgency.us is not null and n < 64
),
due as materialized (
    select first.id, first.rank
    from   urgency
    cross  join lateral (
               select id, rank from {schema}.work_queue w
               where  w.phase = 'later' and {urgency(w.due_at, w.rank)} = urgency.us and w.due_at <= now()
               order  by w.due_at limit $1::bigint) first
    union
    select oldest.id, oldest.rank
    from   (select id, rank from {schema}.work_queue where phase = 'later' and due_at <= now()
            order  by due_at limit $1::bigint) oldest
),
promoted as (
    update {schema}.work_queue
    set    phase = 'ready'
    where  id = any (array (
               select w.id from {schema}.work_queue w
               where  w.id = any (array (select id from due order by rank, id limit $1::bigint)) and w.phase = 'later'
               order  by w.id
               for    no key update skip locked))
    returning 1
)
select (select count(*) from promoted) as promoted, (select count(*) from due) as due, now() as now
