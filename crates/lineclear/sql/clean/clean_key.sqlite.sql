-- clean_key · unique keys whose time is over, and limit keys that no job uses
-- Index: job_key_old.
-- ?1 at most
delete from temp.word;
insert into temp.word (word)
select key from job_key k
where  until is not null and until <= now_us()
       and not exists (select 1 from work_queue w     where w.id = k.job_id)
       and not exists (select 1 from background_job b where b.id = k.job_id)
       and not exists (select 1 from dead_letter d    where d.job_id = k.job_id and d.status = 'awaiting')
limit  ?1;
delete from job_key where key in (select word from temp.word);
delete from temp.picked;
insert into temp.picked (id, marked) select count(*), 0 from temp.word;
delete from limit_key
where  key in (select k.key from limit_key k
               where  not k.fixed
                      and not exists (select 1 from work_queue w     where w.limit_key = k.key and w.phase = 'held')
                      and not exists (select 1 from background_job b where b.limit_key = k.key)
               limit  ?1);
select changes() + (select id from temp.picked) as cleaned
