-- dependents_arm · record which parents arrived, and in which round
-- $1.. manifest, arrived, round, last turn
update {schema}.manifest_state as s
set    arrived = i.arrived, round = i.round, last_turn_at = i.last_turn_at
from   unnest($1::bigint[], $2::text[], $3::bigint[], $4::timestamptz[]) as i (manifest_id, arrived, round, last_turn_at)
where  s.manifest_id = i.manifest_id
