-- lease_clean · rows of locks that nobody has held for long
delete from lock_lease where released_at < utc_timestamp(6) - interval :keep microsecond limit :most
