-- promote_since · later → ready, for jobs whose time has come since a moment up to which none was left
--
-- An old snapshot keeps the entries of all that was promoted in the indexes, and promote walks past them. This begins behind them. If
-- more are due than it may promote, it changes nothing: which of them rank first, promote knows.
-- Index: work_queue_later. `due`: jobs that were found, at most one more than it may promote. Zero: nothing became due since then.
-- $1 at most, $2 the moment
with due as materialized (
    select id from {schema}.work_queue
    where  phase = 'later' and due_at >= $2::timestamptz and due_at <= now()
    order  by due_at limit $1::bigint + 1
),
promoted as (
    update {schema}.work_queue
    set    phase = 'ready'
    where  (select count(*) from due) <= $1::bigint
           and id = any (array (
               select w.id from {schema}.work_queue w
               where  w.id = any (array (select id from due)) and w.phase = 'later' and w.due_at >= $2::timestamptz
               order  by w.id
               for    no key update skip locked))
    returning 1
)
select (select count(*) from promoted) as promoted, (select count(*) from due) as due, now() as now
