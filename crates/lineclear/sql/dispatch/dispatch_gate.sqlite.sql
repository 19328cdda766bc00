-- dispatch_gate · is there a global limit, and what does it say?
select max_active, enabled from manifest_group where name = '*' and gated
