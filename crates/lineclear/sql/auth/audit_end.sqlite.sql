-- audit_end · record the outcomes of actions, each once
-- ?1 rows of id, status, details
update audit set status = i.status, finished_at = now_us(), details = i.details
from   (select value ->> 0 as id, value ->> 1 as status, value ->> 2 as details from json_each(?1)) i
where  audit.id = i.id and audit.status is null
