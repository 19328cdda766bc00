-- event_write · inserts an event that happened `:ago` microseconds ago
insert into lock_event (lock_name, store, what, at, holder, epoch, `before`, by_whom, why)
values (:name, :store, :what, utc_timestamp(6) - interval :ago microsecond, :holder, :epoch, :before, :by, :why)
