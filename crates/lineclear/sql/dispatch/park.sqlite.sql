-- park · waiting jobs of paused manifests step aside
-- What a person triggered goes on.
-- ?1 manifest ids
update work_queue set phase = 'parked'
where  manifest_id in (select value from json_each(?1)) and phase <> 'parked' and origin <> 'trigger'
returning id, limit_key
