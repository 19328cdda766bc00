-- wake_keys · held → ready, as many as there are places under their key
-- At most 1,000 a key: SQLite takes no LIMIT from another table, and reading every held job of a key would not do.
-- Indexes: work_queue_held, background_job_limit_key.
-- ?1 keys
update work_queue
set    phase = 'ready'
where  id in (
           select id from (
               select w.id, row_number() over (partition by k.key order by w.rank, w.id) as turn,
                      k.max - (select count(*) from background_job b where b.limit_key = k.key) as places
               from   limit_key k
               join   work_queue w on w.id in (select x.id from work_queue x
                                               where  x.phase = 'held' and x.limit_key = k.key
                                               order  by x.rank, x.id limit 1000)
               where  k.key in (select value from json_each(?1)))
           where  turn <= places)
returning id
