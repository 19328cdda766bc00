-- lock_fence · share-locks the row of the current epoch: until this transaction ends, no other process can acquire the lock, while the
-- holder can renew it; no row: the epoch is not current. The server ends the transaction of a frozen holder when it idles for $3 ms
with patience as materialized (
  select set_config('idle_in_transaction_session_timeout', $3, true) as set
)
select l.epoch from {schema}.lock_epoch l, patience
where l.name = $1 and l.epoch = $2 and patience.set is not null
for key share of l
