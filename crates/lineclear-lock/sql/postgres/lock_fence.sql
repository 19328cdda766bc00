-- lock_fence · share-locks the row of the current epoch: nobody can take the lock before this transaction has ended, while the
-- holder goes on renewing; no row: the epoch is not current. A frozen holder's transaction must not stand in the way for ever.
with patience as materialized (
  select set_config('idle_in_transaction_session_timeout', $3, true) as set
)
select l.epoch from {schema}.lock_epoch l, patience
where l.name = $1 and l.epoch = $2 and patience.set is not null
for key share of l
