-- promote_since · later → ready, for jobs whose time has come since a moment up to which none was left
-- As in PostgreSQL. SQLite's indexes have no entries of rows that are gone, so this saves nothing here. Index: work_queue_later.
-- ?1 at most, ?2 the moment
delete from temp.picked;
insert into temp.picked (id)
select id from work_queue where phase = 'later' and due_at >= ?2 and due_at <= now_us() order by due_at limit ?1 + 1;
update work_queue set phase = 'ready' where id in (select id from temp.picked) and (select count(*) from temp.picked) <= ?1;
select changes() as promoted, (select count(*) from temp.picked) as due, now_us() as now
