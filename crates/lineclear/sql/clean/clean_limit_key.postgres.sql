-- clean_limit_key · limit keys that no job uses: a page of all keys
-- A limit key that is being counted right now is locked, and skipped.
-- Index: limit_key_pkey. `next`: the last key of the page; null: it was the last page.
-- $1 after this key, $2 keys of a page
with page as materialized (
    select key from {schema}.limit_key where key > $1::text order by key limit $2::bigint
),
gone as (
    delete from {schema}.limit_key where key = any (array (
        select k.key from page p join {schema}.limit_key k on k.key = p.key
        where  not k.fixed
               and not exists (select from {schema}.work_queue w     where w.limit_key = k.key and w.phase = 'held')
               and not exists (select from {schema}.background_job b where b.limit_key = k.key)
        for    update of k skip locked))
    returning 1
)
select (select count(*) from gone) as cleaned, (select max(key) from page having count(*) >= $2::bigint) as next
