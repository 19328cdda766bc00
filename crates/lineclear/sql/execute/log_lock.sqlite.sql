-- log_lock · claims that a remote worker holds, locked: two calls do not number log lines of one claim alike
-- As in PostgreSQL, but SQLite has one writer at a time. Zero rows: the worker holds none of them.
-- ?1 node, ?2 rows of job, claim number
select b.id, b.claim_no
from   json_each(?2) i
join   background_job b on b.id = i.value ->> 0 and b.claim_no = i.value ->> 1
where  b.leased_by = ?1
order  by b.id
