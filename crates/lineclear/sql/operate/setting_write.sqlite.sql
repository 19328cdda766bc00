-- setting_write · store settings that an operator changed
-- ?1 version, ?2 by whom, ?3 rows of key and value, or null
insert into setting (key, value, version, updated_at, updated_by)
select i.value ->> 0, i.value ->> 1, ?1, now_us(), ?2 from json_each(?3) i
where  true
on conflict (key) do update
set    value = excluded.value, version = excluded.version, updated_at = excluded.updated_at, updated_by = excluded.updated_by
returning key
