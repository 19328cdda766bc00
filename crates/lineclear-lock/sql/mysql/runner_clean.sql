-- runner_clean · deletes runners that were not renewed for long: they stopped, or their nodes vanished
delete from lock_runner where renewed_at < utc_timestamp(6) - interval :keep microsecond limit :limit
