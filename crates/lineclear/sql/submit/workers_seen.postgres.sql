-- workers_seen · remote workers that were heard of since the last time, all in one statement
-- Returned: whether each was told to drain: from then on its node gives it no jobs.
-- Rows in the order of their ids, as everywhere. Zero rows: their rows were removed, and they register again.
-- $1 nodes
update {schema}.node set seen_at = now(), takes_nothing = drain_at is not null
where  id = any (array (select id from {schema}.node where id = any ($1::bigint[]) order by id for no key update))
returning id, drain_at is not null as drains
