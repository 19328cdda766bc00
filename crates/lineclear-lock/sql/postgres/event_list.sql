-- event_list · events of locks, newest first
-- $1 name or null, $2 before this id or null, $3 at most
select id, lock_name, store, what, holder, epoch, before, by_whom, why, (extract(epoch from at) * 1000000)::bigint as at_us
from {schema}.lock_event
where ($1::text is null or lock_name = $1) and ($2::bigint is null or id < $2)
order by id desc
limit $3
