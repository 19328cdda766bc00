-- plan_lead · may this node plan now?
--
-- Bound to the transaction, so it cannot leak through a pool, and a planner that dies or freezes lets go of it (the
-- server ends a transaction that idles). It only saves work: row locks and the tick ledger are the safety. It is a
-- separate statement because the reads under the lock need a snapshot taken after it.
-- False: another node plans.
-- $1 key
select set_config('idle_in_transaction_session_timeout', '10s', true) is not null
       and pg_try_advisory_xact_lock($1::bigint) as leads
