-- event_write · something happened to a lock
insert into lock_event (lock_name, store, what, at, holder, epoch, before, by_whom, why)
values (:name, :store, :what, :now - :ago, :holder, :epoch, :before, :by, :why)
