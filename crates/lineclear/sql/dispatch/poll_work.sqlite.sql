-- poll_work · is there anything to do? The only statement that an idle node sends, once a second
-- As in PostgreSQL. SQLite's indexes have no entries of rows that are gone, so a mark saves nothing here.
-- ?1 routes, ?2 count up to, ?3 mark of due jobs, ?4 mark of leases, ?5 mark of waiting jobs (null: none), ?6 the last id then
select r.value as route,
       exists (select 1 from work_queue w where w.route = r.value and w.phase = 'ready' and not w.gated and w.rank >= coalesce(?5, -9223372036854775808))
       or exists (select 1 from work_queue w where ?5 is null and w.route = r.value and w.phase = 'ready' and w.gated)
       or exists (select 1 from work_queue w where ?5 is not null and w.route = r.value and w.phase = 'ready' and not w.gated and w.rank = 0)
       or exists (select 1 from work_queue w where ?5 is not null and w.id > ?6 and w.route = r.value and w.phase = 'ready') as waits,
       (select count(*) from (select 1 from background_job b
                              where  b.route = r.value and b.leased_by is null limit ?2)) as handed,
       (select min(due_at) from work_queue where phase = 'later' and due_at >= coalesce(?3, 0) and due_at <= now_us()) is not null as due,
       (select min(due_at) from background_job where leased_by is not null and due_at >= coalesce(?4, 0) and due_at <= now_us()) is not null
       or (select min(deadline_at) from background_job
           where  deadline_at is not null and deadline_at >= coalesce(?4, 0) and deadline_at <= now_us()) is not null as lease_over,
       now_us() as now, (select last from job_id) as last_id
from   json_each(?1) r
