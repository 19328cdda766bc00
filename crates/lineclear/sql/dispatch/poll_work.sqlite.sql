-- poll_work · is there anything to do? The only statement that an idle node sends, once a second
-- As in PostgreSQL.
-- ?1 routes, ?2 count up to
select r.value as route,
       exists (select 1 from work_queue w where w.route = r.value and w.phase = 'ready' and not w.gated)
       or exists (select 1 from work_queue w where w.route = r.value and w.phase = 'ready' and w.gated) as waits,
       (select count(*) from (select 1 from background_job b
                              where  b.route = r.value and b.leased_by is null limit ?2)) as handed,
       coalesce((select min(due_at) from work_queue where phase = 'later') <= now_us(), 0) as due,
       coalesce((select min(due_at) from background_job where leased_by is not null) <= now_us(), 0)
       or coalesce((select min(deadline_at) from background_job where deadline_at is not null) <= now_us(), 0) as lease_over
from   json_each(?1) r
