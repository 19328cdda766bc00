-- log_lock · claims that a remote worker holds, locked: two calls do not number log lines of one claim alike
-- Rows by id, as everywhere. Zero rows: the worker holds none of them.
-- $1 node, $2.. job, claim number
select b.id, b.claim_no
from   {schema}.background_job b
join   unnest($2::bigint[], $3::bigint[]) as i (id, claim_no) on i.id = b.id and i.claim_no = b.claim_no
where  b.leased_by = $1::bigint
order  by b.id for no key update of b
