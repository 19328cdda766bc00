-- dispatch_gate · lock the global gate: one dispatcher at a time counts and fills the global limit
-- A separate statement: the count that follows must see what was committed before the lock was granted.
-- Zero rows: there is no global limit.
{global_gate}
for    no key update
