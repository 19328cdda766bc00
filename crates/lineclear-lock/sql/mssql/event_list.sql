-- event_list · events of locks, newest first
select top (@P3) id, lock_name, store, what, holder, epoch, [before], by_whom, why, [at] as at_us
from lock_event
where (@P1 is null or lock_name = @P1) and (@P2 is null or id < @P2)
order by id desc
