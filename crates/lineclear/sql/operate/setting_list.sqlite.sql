-- setting_list · what operators changed
-- A handful of rows. Zero: nothing ever was.
select key, value, version, updated_at, updated_by from setting order by key limit 1000
