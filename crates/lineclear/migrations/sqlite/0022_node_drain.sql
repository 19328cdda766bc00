-- 0022_node_drain · nodes that operators told to take nothing new.

-- Since when, and who said so; null: it takes work. It is of this process alone: one that is started again has a row of its own.
alter table node add column drain_at integer;
alter table node add column drain_by text;
-- What the node says itself: it has heard of it, and no pass that began before is under way.
alter table node add column takes_nothing integer not null default 0;
