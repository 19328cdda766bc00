-- wake_keys · held → ready, as many as their key has free slots
-- A key without a row has the limit that dispatch would give it: one.
-- A hint: dispatch counts again, under the key's lock, and holds the jobs above the limit.
-- Indexes: work_queue_held, background_job_limit_key.
-- $1 keys
update {schema}.work_queue
set    phase = 'ready'
where  id = any (array (
           select w.id
           from   unnest($1::text[]) as asked (key)
           left   join {schema}.limit_key k on k.key = asked.key
           cross  join lateral (
                      select id from {schema}.work_queue
                      where  phase = 'held' and limit_key = asked.key
                      order  by rank, id
                      limit  greatest(0, coalesce(k.max, 1) -
                                  (select count(*) from {schema}.background_job where limit_key = asked.key))
                      for    no key update skip locked) w))
returning id
