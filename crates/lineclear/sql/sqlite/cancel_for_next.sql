-- cancel_for_next · the running jobs of these manifests make way for a newer tick
-- ?1 manifest ids
update background_job
set    cancel_requested_at = now_us()
where  manifest_id in (select value from json_each(?1)) and cancel_requested_at is null
returning id
