-- global_gate · the global limit
select max_active, enabled from {schema}.manifest_group where name = '*' and gated
