-- dispatch_gate · close the global gate behind us: one dispatcher at a time counts and fills the global limit
-- A statement of its own: the count that follows must see what was committed before the lock was granted.
-- Zero rows: there is no global limit.
select max_active, enabled from {schema}.manifest_group where name = '*' and gated
for    no key update
