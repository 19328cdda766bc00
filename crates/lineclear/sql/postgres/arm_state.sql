-- arm_state · which parents arrived, and in which round
-- $1.. manifest, arrived, round
update {schema}.manifest_state as s
set    arrived = i.arrived, round = i.round
from   unnest($1::bigint[], $2::text[], $3::bigint[]) as i (manifest_id, arrived, round)
where  s.manifest_id = i.manifest_id
