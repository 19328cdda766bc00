-- lock_acquire · free → held, with the next epoch; no row: the lock is busy
insert into lock_epoch (name, epoch, token, holder, kind, acquired_at, renewed_at, ends_at)
values (:name, 1, :token, :holder, :kind, :now, :now, :now + :ttl)
on conflict (name) do update set
  epoch = epoch + 1, token = excluded.token, holder = excluded.holder, kind = excluded.kind,
  acquired_at = excluded.acquired_at, renewed_at = excluded.renewed_at, ends_at = excluded.ends_at, released_at = null
where lock_epoch.ends_at <= excluded.acquired_at
returning epoch
