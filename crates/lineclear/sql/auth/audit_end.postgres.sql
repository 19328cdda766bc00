-- audit_end · record the outcomes of actions, each once
-- $1.. id, status, details
update {schema}.audit as a set status = i.status, finished_at = now(), details = i.details
from   unnest($1::bigint[], $2::bigint[], $3::text[]) as i (id, status, details)
where  a.id = i.id and a.status is null
