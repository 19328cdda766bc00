-- clean_limit_key · limit keys that no job uses: a page of all keys
-- As in PostgreSQL.
-- ?1 after this key, ?2 keys of a page
delete from temp.expired;
insert into temp.expired (key, gone)
select key, not k.fixed
            and not exists (select 1 from work_queue w     where w.limit_key = k.key and w.phase = 'held')
            and not exists (select 1 from background_job b where b.limit_key = k.key)
from   limit_key k where key > ?1 order by key limit ?2;
delete from limit_key where key in (select key from temp.expired where gone);
select coalesce(sum(gone), 0) as cleaned, iif(count(*) >= ?2, max(key), null) as next from temp.expired
