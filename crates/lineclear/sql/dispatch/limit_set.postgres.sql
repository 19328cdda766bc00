-- limit_set · how many jobs with this key may be active at once
-- $1 key, $2 max
insert into {schema}.limit_key (key, max, fixed) values ($1::text, $2::bigint, true)
on conflict (key) do update set max = excluded.max, fixed = true
