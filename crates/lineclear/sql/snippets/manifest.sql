-- manifest · what a manifest says, and how far it is planned: `m`, with its group `g`
m.id, m.key, m.owner, m.kind, m.route, m.input, m.group_id, g.name as group_name, m.spec, m.overlap, m.priority, m.retries,
m.timeout_ms, m.enabled, m.held, m.next_due_at, m.planned_through, m.on_dead, m.version
