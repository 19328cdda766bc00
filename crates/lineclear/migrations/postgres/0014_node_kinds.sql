-- 0014_node_kinds · which kinds a node runs, so that it can be said that nobody runs a kind.

-- A JSON list. Null: a node of an earlier version, which does not say.
alter table {schema}.node add column kinds text;
