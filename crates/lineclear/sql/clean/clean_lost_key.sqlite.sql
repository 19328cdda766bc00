-- clean_lost_key · unique keys that hold while their job lives, and whose job is nowhere: a page of all keys
-- As in PostgreSQL.
-- ?1 after this key, ?2 keys of a page
delete from temp.expired;
insert into temp.expired (key)
select key from (select key, job_id, until from job_key where key > ?1 order by key limit ?2) k
where  until is null and {job_is_nowhere(k.job_id)};
delete from job_key where key in (select key from temp.expired);
select (select count(*) from temp.expired) as cleaned, iif(count(*) >= ?2, max(key), null) as next
from   (select key from (select * from (select key from job_key where key > ?1 order by key limit ?2)
                         union all select key from temp.expired)
        order by key limit ?2)
