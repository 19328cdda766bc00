-- schema_rules · keys of our tables, and what is checked
-- In SQLite they are part of what makes the table, and cannot be taken away alone.
-- ?1 schema
select ?1 as table_name, '' as name, '' as definition where 0
