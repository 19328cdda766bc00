-- clean_lock · tenures of planners that are gone, and old events of locks
-- As in PostgreSQL; rows of lock_lease are marked, with their number below zero. Indexes: lock_event_at, lock_event_name.
-- ?1 keep so many ms, ?2 at most
delete from temp.picked;
insert into temp.picked (id, marked)
select -rowid, 1 from lock_lease
where  store = 'engine' and (released_at < now_us() - 86400000000 or (released_at is null
       and renewed_at < now_us() - max(60000000, 3000 * renew_ms)));
insert into temp.picked (id, marked) select id, 0 from lock_event where at < now_us() - ?1 * 1000 order by at limit ?2;
insert or ignore into temp.picked (id, marked)
select id, 0 from lock_event where lock_name = 'planner' and store = 'engine' order by id desc limit ?2 offset 1000;
delete from lock_event where id in (select id from temp.picked where marked = 0);
insert into lock_event (lock_name, store, what, at, holder, epoch, why)
select lock_name, store, 'vanished', now_us(), machine || '/' || pid || '/' || incarnation, epoch,
       'last renewed at ' || strftime('%Y-%m-%dT%H:%M:%SZ', renewed_at / 1000000.0, 'unixepoch')
from   lock_lease
where  -rowid in (select id from temp.picked where marked = 1) and released_at is null;
delete from lock_lease where -rowid in (select id from temp.picked where marked = 1);
select count(*) as cleaned from temp.picked
