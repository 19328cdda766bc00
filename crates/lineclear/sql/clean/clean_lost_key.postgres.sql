-- clean_lost_key · unique keys that hold while their job lives, and whose job is nowhere: a page of all keys
-- Its row was deleted by hand, or the key was locked when the job ended. The key is locked only if it still belongs to that job: another
-- call may have taken it over meanwhile, and this statement does not see that call's job.
-- Index: job_key_once. `next`: the last key of the page; null: it was the last page.
-- $1 after this key, $2 keys of a page
with page as materialized (
    select key, job_id, until from {schema}.job_key where key > $1::text order by key limit $2::bigint
),
lost as materialized (
    select key, job_id from page where until is null and {job_is_nowhere(page.job_id)}
),
gone as (
    delete from {schema}.job_key where key = any (array (
        select k.key from {schema}.job_key k join lost l on l.key = k.key and l.job_id = k.job_id
        order  by k.key for update of k skip locked))
    returning 1
)
select (select count(*) from gone) as cleaned, (select max(key) from page having count(*) >= $2::bigint) as next
