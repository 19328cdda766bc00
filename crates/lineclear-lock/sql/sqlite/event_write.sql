-- event_write · inserts an event that happened `:ago` microseconds ago
insert into lock_event (lock_name, store, what, at, holder, epoch, before, by_whom, why)
values (:name, :store, :what, :now - :ago, :holder, :epoch, :before, :by, :why)
