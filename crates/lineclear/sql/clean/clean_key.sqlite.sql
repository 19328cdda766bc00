-- clean_key · unique keys whose time is over
-- As in PostgreSQL. Index: job_key_old.
-- ?1 at most
delete from temp.expired;
insert into temp.expired (key, gone)
select key, {job_is_nowhere(k.job_id)} from job_key k where until is not null and until <= now_us() order by until limit ?1;
delete from job_key where key in (select key from temp.expired where gone);
update job_key set until = null where key in (select key from temp.expired where not gone);
select coalesce(sum(gone), 0) as cleaned, count(*) as seen from temp.expired
