-- workers_seen · remote workers that were heard of since the last time, all in one statement
-- Returned: whether each was told to drain: from then on its node gives it no jobs.
-- As in PostgreSQL.
-- ?1 nodes
update node set seen_at = now_us(), takes_nothing = drain_at is not null where id in (select value from json_each(?1)) returning id, drain_at is not null as drains
