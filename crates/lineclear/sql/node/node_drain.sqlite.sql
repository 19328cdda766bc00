-- node_drain · a node shall take nothing new, or take work again
-- It hears of it with its next heartbeat. Whoever said so first stays. What it said of
-- itself under an earlier drain does not count for this one. Zero rows: there is no such node.
-- ?1 node, ?2 whether it shall drain, ?3 by whom
update node
set    drain_at = case when ?2 then coalesce(drain_at, now_us()) end,
       drain_by = case when ?2 then coalesce(drain_by, ?3) end,
       takes_nothing = takes_nothing and drain_at is not null and ?2
where  id = ?1
returning id
