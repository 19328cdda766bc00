-- clean_lock · tenures of planners that are gone, and old events of locks
-- A planner is gone when it has sent no heartbeat for a minute, and for three heartbeat periods. Of the planning, whose leader
-- may change often, the last thousand events are kept. Other rows of a lock registry in these tables are left to that registry.
-- Indexes: lock_event_at, lock_event_name.
-- $1 keep so many ms, $2 at most
with gone as (
    delete from {schema}.lock_lease
    where  store = 'engine' and (released_at < now() - interval '1 day' or (released_at is null
           and renewed_at < now() - greatest(interval '60 s', 3 * renew_ms * interval '1 millisecond')))
    returning *
), vanished as (
    insert into {schema}.lock_event (lock_name, store, what, holder, epoch, why)
    select lock_name, store, 'vanished', machine || '/' || pid || '/' || incarnation, epoch,
           'last renewed at ' || to_char(renewed_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"')
    from   gone where released_at is null
), old as (
    delete from {schema}.lock_event where id = any (array (
        select id from {schema}.lock_event
        where  at < now() - $1::bigint * interval '1 millisecond'
        order  by at limit $2::bigint for update skip locked))
    returning 1
), beyond as (
    delete from {schema}.lock_event where id = any (array (
        select id from {schema}.lock_event
        where  lock_name = 'planner' and store = 'engine' and at >= now() - $1::bigint * interval '1 millisecond'
        order  by id desc offset 1000 limit $2::bigint for update skip locked))
    returning 1
)
select (select count(*) from gone) + (select count(*) from old) + (select count(*) from beyond) as cleaned
