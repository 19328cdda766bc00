-- 0016_events · tries that did not end their job can be found by time, as those that did.
-- A job that completes at its first try is not in it.

create index execution_tried on {schema}.execution (finished_at) where not final;
