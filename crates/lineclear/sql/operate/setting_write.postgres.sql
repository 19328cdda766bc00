-- setting_write · store settings that an operator changed
-- $1 version, $2 by whom, $3 keys, $4 values, or null
insert into {schema}.setting as s (key, value, version, updated_by)
select i.key, i.value, $1::bigint, $2::text from unnest($3::text[], $4::text[]) as i (key, value)
order  by i.key
on conflict (key) do update
set    value = excluded.value, version = excluded.version, updated_at = now(), updated_by = excluded.updated_by
returning s.key
