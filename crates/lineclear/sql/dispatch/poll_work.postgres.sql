-- poll_work · is there anything to do? The only statement that an idle node sends, once a second
--
-- A read: it writes no WAL and takes no row lock. Per route: whether jobs wait in either lane, and how many jobs can be
-- claimed (counted up to $2); for all routes: whether jobs have come due, and whether a lease is over.
-- Each part reads the first entry of an index: `exists` may read a table from its beginning instead.
-- Indexes: work_queue_open, work_queue_gated, work_queue_later, background_job_ready, background_job_lease,
-- background_job_deadline.
-- $1 routes, $2 count up to
select r.route,
       coalesce((select true from {schema}.work_queue w where w.route = r.route and w.phase = 'ready' and not w.gated
                 order by w.rank, w.id limit 1),
                (select true from {schema}.work_queue w where w.route = r.route and w.phase = 'ready' and w.gated
                 order by w.group_id, w.rank, w.id limit 1), false) as waits,
       (select count(*) from (select from {schema}.background_job b
                              where  b.route = r.route and b.leased_by is null
                              order by b.rank, b.id limit $2::bigint) ready) as handed,
       coalesce((select min(due_at) from {schema}.work_queue where phase = 'later') <= now(), false) as due,
       coalesce((select min(due_at) from {schema}.background_job where leased_by is not null) <= now(), false)
       or coalesce((select min(deadline_at) from {schema}.background_job where deadline_at is not null) <= now(), false) as lease_over
from   unnest($1::text[]) as r (route)
