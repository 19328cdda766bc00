-- event_list · events of locks, newest first
select id, lock_name, store, what, holder, epoch, before, by_whom, why, at as at_us
from lock_event
where (:name is null or lock_name = :name) and (:before is null or id < :before)
order by id desc
limit :limit
