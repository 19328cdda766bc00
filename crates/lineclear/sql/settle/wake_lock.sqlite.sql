-- wake_lock · lock these limit keys, so that no dispatcher is counting them
-- The transaction's write lock has waited already.
-- ?1 keys
select value as key, 1 as locked from json_each(?1)
