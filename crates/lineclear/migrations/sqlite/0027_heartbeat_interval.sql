-- 0027_heartbeat_interval · when a node is heard of again: while its next heartbeat is still to come, it may be slow and not dead.
-- Null: the node is of an older release, or does not say.
alter table node add column beat_ms integer;
