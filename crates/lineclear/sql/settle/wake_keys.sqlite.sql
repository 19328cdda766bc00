-- wake_keys · held → ready, as many as their key has free slots
-- At most 1,000 per key: SQLite takes no LIMIT from another table, and reading every held job of a key would take too long.
-- Indexes: work_queue_held, background_job_limit_key.
-- ?1 keys
update work_queue
set    phase = 'ready'
where  id in (
           select id from (
               select w.id, row_number() over (partition by asked.value order by w.rank, w.id) as turn,
                      coalesce((select k.max from limit_key k where k.key = asked.value), 1)
                      - (select count(*) from background_job b where b.limit_key = asked.value) as places
               from   json_each(?1) asked
               join   work_queue w on w.id in (select x.id from work_queue x
                                               where  x.phase = 'held' and x.limit_key = asked.value
                                               order  by x.rank, x.id limit 1000))
           where  turn <= places)
returning id
