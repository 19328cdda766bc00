-- node_find · a node by its incarnation, and whether it was told to drain
-- Index: node_incarnation. Zero rows: it never was there, or it has left.
-- $1 incarnation
select id, drain_at is not null as drains from {schema}.node where incarnation = $1::text
