-- wake_keys · held → ready, as many as there are places under their key
-- A hint: dispatch counts again, under the key's lock, and holds what is too much.
-- Indexes: work_queue_held, background_job_limit_key.
-- $1 keys
update {schema}.work_queue
set    phase = 'ready'
where  id = any (array (
           select w.id
           from   {schema}.limit_key k
           cross  join lateral (
                      select id from {schema}.work_queue
                      where  phase = 'held' and limit_key = k.key
                      order  by rank, id
                      limit  greatest(0, k.max - (select count(*) from {schema}.background_job where limit_key = k.key))
                      for    no key update skip locked) w
           where  k.key = any ($1::text[])))
returning id
