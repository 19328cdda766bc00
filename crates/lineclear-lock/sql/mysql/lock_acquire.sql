-- lock_acquire · the next epoch, in the answer's last_insert_id; only after the server's lock was acquired
insert into lock_epoch (name, epoch, holder, kind, idle_seconds, acquired_at)
values (:name, last_insert_id(1), :holder, :kind, :idle, utc_timestamp(6))
on duplicate key update
  epoch = last_insert_id(epoch + 1), holder = values(holder), kind = values(kind),
  idle_seconds = values(idle_seconds), acquired_at = values(acquired_at)
