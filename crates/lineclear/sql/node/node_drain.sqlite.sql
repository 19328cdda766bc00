-- node_drain · drain a node, or let it take work again
-- The node reads this with its next heartbeat. A second drain keeps the time and the name of the first. What the node
-- reported during an earlier drain does not count for this one. Zero rows: there is no such node.
-- ?1 node, ?2 whether it shall drain, ?3 by whom
update node
set    drain_at = case when ?2 then coalesce(drain_at, now_us()) end,
       drain_by = case when ?2 then coalesce(drain_by, ?3) end,
       takes_nothing = takes_nothing and drain_at is not null and ?2
where  id = ?1
returning id
