-- dependents_arm · record which parents arrived, and in which round
-- ?1 rows of manifest, arrived, round, last turn
update manifest_state
set    arrived = i.arrived, round = i.round, last_turn_at = i.last_turn_at
from   (select value ->> 0 as manifest_id, value ->> 1 as arrived, value ->> 2 as round, value ->> 3 as last_turn_at
        from json_each(?1)) i
where  manifest_state.manifest_id = i.manifest_id
