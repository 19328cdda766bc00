-- within · what follows in this transaction ends in time, whatever it meets
-- Bound to the transaction: through a pool, the next one is as before.
-- $1 such as '2s'
select set_config('statement_timeout', $1::text, true) as within
