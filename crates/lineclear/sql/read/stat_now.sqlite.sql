-- stat_now · how much waits, runs and needs a person, right now
-- As in PostgreSQL. Indexes: work_queue_open, work_queue_gated, background_job_ready, background_job_lease, dead_letter_status, node_seen.
-- ?1 count up to
with recursive {routes_in_line},
first (due_at) as (
    select w.due_at
    from   open r cross join work_queue w
           on w.id in (select f.id from work_queue f where f.phase = 'ready' and not f.gated and f.route = r.route
                       order by f.rank, f.id limit 200)
    union all
    select w.due_at
    from   gated r cross join work_queue w
           on w.id in (select f.id from work_queue f where f.phase = 'ready' and f.gated and f.route = r.route
                       order by f.group_id, f.rank, f.id limit 200)
    union all
    select b.was_due_at
    from   handed r cross join background_job b
           on b.id in (select f.id from background_job f where f.leased_by is null and f.route = r.route order by f.rank, f.id limit 200)
),
ready (jobs) as (select count(*) from (select 1 from background_job where leased_by is null and route > '' limit ?1))
select (select count(*) from (select 1 from work_queue where id > 0 order by id limit ?1)) + (select jobs from ready) as waiting,
       (select count(*) from (select 1 from work_queue where phase = 'ready' and not gated and route > '' order by route, rank, id limit ?1))
       + (select count(*) from (select 1 from work_queue where phase = 'ready' and gated and route > '' order by route, group_id, rank, id limit ?1))
       + (select jobs from ready) as due,
       (select count(*) from (select 1 from background_job where leased_by is not null and due_at > 0 order by due_at limit ?1)) as running,
       (select count(*) from (select 1 from dead_letter where status = 'awaiting' order by id limit ?1)) as dead_letters,
       (select count(*) from node where seen_at > now_us() - 30000000 and roles not in ('["worker"]', '["submitter"]')) as nodes,
       (select count(*) from node where seen_at > now_us() - 30000000 and roles = '["worker"]') as workers,
       (select coalesce(sum(slots), 0) from node where seen_at > now_us() - 30000000 and roles = '["worker"]') as worker_slots,
       (select min(due_at) from first) as oldest_due_at,
       now_us() as now
