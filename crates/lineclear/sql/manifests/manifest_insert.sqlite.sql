-- manifest_insert · new manifests, each with its state row
-- ?1 rows of columns
insert into manifest
       (key, owner, kind, route, input, group_id, spec, overlap, priority, retries, timeout_ms, enabled, next_due_at,
        planned_through, declared, on_dead, backoff, tags, created_at, updated_at)
select value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4, value ->> 5, value ->> 6, value ->> 7, value ->> 8,
       value ->> 9, value ->> 10, value ->> 11, value ->> 12, value ->> 13, value ->> 14, value ->> 15,
       value ->> 16, value ->> 17, now_us(), now_us()
from   json_each(?1);
insert into manifest_state (manifest_id, paused)
select id, not enabled from manifest where key in (select value ->> 0 from json_each(?1));
select id, key, version from manifest where key in (select value ->> 0 from json_each(?1)) order by id
