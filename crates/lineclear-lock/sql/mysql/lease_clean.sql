-- lease_clean · deletes rows of locks that were released long ago
delete from lock_lease where released_at < utc_timestamp(6) - interval :keep microsecond limit :limit
