-- poll_work · is there anything to do? The only statement that an idle node sends, once a second
--
-- A read: it writes no WAL and takes no row lock. Per route: whether jobs wait in either lane, and how many jobs can be
-- claimed (counted up to $2); for all routes: whether jobs have come due, and whether a lease is over.
-- Each part reads the first entry of an index: `exists` may read a table from its beginning instead. An old snapshot keeps the entries
-- of all that is over, so a part may begin at a mark: a moment up to which there was nothing. What waits since then has a
-- later rank, a later id, or rank 0, if its worker vanished (written as a range, so that no plan reads all ids in their order). A job
-- that was released is found by a poll without a mark.
-- Indexes: work_queue_open, work_queue_gated, work_queue_pkey, work_queue_later, background_job_ready, background_job_lease,
-- background_job_deadline.
-- $1 routes, $2 count up to, $3 mark of due jobs, $4 mark of leases, $5 mark of waiting jobs (null: none), $6 the last id then
select r.route,
       coalesce((select true from {schema}.work_queue w where w.route = r.route and w.phase = 'ready' and not w.gated
                        and w.rank >= coalesce({micros($5::timestamptz)}, -9223372036854775808)
                 order by w.rank, w.id limit 1),
                (select true from {schema}.work_queue w where $5::timestamptz is null
                        and w.route = r.route and w.phase = 'ready' and w.gated
                 order by w.group_id, w.rank, w.id limit 1),
                (select true from {schema}.work_queue w where $5::timestamptz is not null
                        and w.route = r.route and w.phase = 'ready' and not w.gated and w.rank >= 0 and w.rank <= 0
                 order by w.rank, w.id limit 1),
                (select true from {schema}.work_queue w where $5::timestamptz is not null
                        and w.id > $6::bigint and w.route = r.route and w.phase = 'ready'
                 order by w.id limit 1), false) as waits,
       (select count(*) from (select from {schema}.background_job b
                              where  b.route = r.route and b.leased_by is null
                              order by b.rank, b.id limit $2::bigint) ready) as handed,
       (select min(due_at) from {schema}.work_queue
        where  phase = 'later' and due_at >= coalesce($3::timestamptz, '-infinity') and due_at <= now()) is not null as due,
       (select min(due_at) from {schema}.background_job
        where  leased_by is not null and due_at >= coalesce($4::timestamptz, '-infinity') and due_at <= now()) is not null
       or (select min(deadline_at) from {schema}.background_job
           where  deadline_at >= coalesce($4::timestamptz, '-infinity') and deadline_at <= now()) is not null as lease_over,
       now() as now, coalesce(pg_sequence_last_value('{schema}.job_id'), 0) as last_id
from   unnest($1::text[]) as r (route)
