-- unpark · jobs of resumed manifests wait again like all others
-- ?1 manifest ids
update work_queue set phase = {phase(due_at)}
where  manifest_id in (select value from json_each(?1)) and phase = 'parked' and not unknown_kind
returning id, limit_key
