-- setting_list · the settings that operators changed
-- A handful of rows. Zero: none was ever changed.
select key, value, version, updated_at, updated_by from {schema}.setting order by key limit 1000
