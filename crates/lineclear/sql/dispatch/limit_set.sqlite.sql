-- limit_set · how many jobs with this key may be active at once
-- ?1 key, ?2 max
insert into limit_key (key, max, fixed) values (?1, ?2, 1)
on conflict (key) do update set max = excluded.max, fixed = 1
