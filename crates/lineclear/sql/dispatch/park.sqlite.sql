-- park · park the waiting jobs of paused manifests
-- Triggered jobs go on.
-- ?1 manifest ids
update work_queue set phase = 'parked'
where  manifest_id in (select value from json_each(?1)) and phase <> 'parked' and origin <> 'trigger'
returning id, limit_key
