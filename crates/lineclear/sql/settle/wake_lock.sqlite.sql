-- wake_lock · wait for dispatchers that are counting these limit keys
-- The transaction's write lock has waited already.
-- ?1 keys
select key from limit_key where key in (select value from json_each(?1))
