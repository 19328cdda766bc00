-- 0022_node_drain · nodes that operators told to take nothing new.

-- Since when, and who said so; null: it takes work. It is of this process alone: one that is started again has a row of its own.
alter table {schema}.node add column drain_at timestamptz;
alter table {schema}.node add column drain_by text;
-- What the node says itself: it has heard of it, and no pass that began before is under way.
alter table {schema}.node add column takes_nothing boolean not null default false;
