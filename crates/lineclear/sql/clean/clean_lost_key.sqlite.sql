-- clean_lost_key · unique keys that hold while their job lives, and whose job is nowhere: a page of all keys
-- As in PostgreSQL.
-- ?1 after this key, ?2 keys of a page
delete from temp.worn;
insert into temp.worn (key, gone)
select key, until is null and {job_is_nowhere(k.job_id)} from job_key k where key > ?1 order by key limit ?2;
delete from job_key where key in (select key from temp.worn where gone);
select coalesce(sum(gone), 0) as cleaned, iif(count(*) >= ?2, max(key), null) as next from temp.worn
