-- clean_key · unique keys whose time is over, and limit keys that no job uses
-- A limit key that is being counted right now is locked, and skipped. Index: job_key_old.
-- $1 at most
with worn as (
    delete from {schema}.job_key where key = any (array (
        select key from {schema}.job_key k
        where  until <= now()
               and not exists (select from {schema}.work_queue w     where w.id = k.job_id)
               and not exists (select from {schema}.background_job b where b.id = k.job_id)
               and not exists (select from {schema}.dead_letter d    where d.job_id = k.job_id and d.status = 'awaiting')
        limit  $1::bigint for update skip locked))
    returning 1
),
unused as (
    delete from {schema}.limit_key where key = any (array (
        select key from {schema}.limit_key k
        where  not fixed
               and not exists (select from {schema}.work_queue w     where w.limit_key = k.key and w.phase = 'held')
               and not exists (select from {schema}.background_job b where b.limit_key = k.key)
        limit  $1::bigint for update skip locked))
    returning 1
)
select (select count(*) from worn) + (select count(*) from unused) as cleaned
