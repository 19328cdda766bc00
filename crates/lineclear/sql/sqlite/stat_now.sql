-- stat_now · how much waits, runs and needs a person, right now
-- As in PostgreSQL. Indexes: work_queue_open, work_queue_gated, background_job_lease, dead_letter_status, node_seen.
-- ?1 count so far
select (select count(*) from (select 1 from work_queue limit ?1)) as waiting,
       (select count(*) from (select 1 from work_queue where phase = 'ready' and not gated limit ?1))
       + (select count(*) from (select 1 from work_queue where phase = 'ready' and gated limit ?1)) as due,
       (select count(*) from (select 1 from background_job where leased_by is not null limit ?1)) as running,
       (select count(*) from (select 1 from dead_letter where status = 'awaiting' limit ?1)) as dead_letters,
       (select count(*) from node where seen_at > now_us() - 30000000) as nodes,
       (select min(due_at) from (
           select * from (select due_at from work_queue where phase = 'ready' and not gated order by route, rank, id limit 1000)
           union all
           select * from (select due_at from work_queue where phase = 'ready' and gated order by route, group_id, rank, id limit 1000)))
       as oldest_due_at,
       now_us() as now
