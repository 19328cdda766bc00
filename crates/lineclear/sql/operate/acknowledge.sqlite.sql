-- acknowledge · a person closes a dead letter without reviving it
-- ?1 dead letters, ?2 by whom, ?3 note
delete from temp.picked;
insert into temp.picked (id, marked)
select id, 0 from dead_letter where id in (select value from json_each(?1)) and status = 'awaiting';
update dead_letter
set    status = 'acknowledged', resolved_at = now_us(), resolved_by = ?2, note = ?3
where  id in (select id from temp.picked);
{free_keys((select unique_key, job_id from dead_letter where id in (select id from temp.picked)))};
select id, job_id, manifest_id from dead_letter where id in (select id from temp.picked) order by id
