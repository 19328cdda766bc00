-- event_list · events of locks, newest first
select id, lock_name, store, what, holder, epoch, `before`, by_whom, why, timestampdiff(microsecond, '1970-01-01', at) as at_us
from lock_event
where (:name is null or lock_name = :name) and (:before is null or id < :before)
order by id desc
limit :limit
