-- group_rerank · give waiting jobs of a group the rank that its new priority asks for, a batch at a time
-- ?1 group, ?2 after this id, ?3 at most
update work_queue
set    rank = {rank(due_at, priority, {group_priority(?1)})}
where  rank <> 0 and id in (select id from work_queue where group_id = ?1 and id > ?2 order by id limit ?3);
select max(id) as last from (select id from work_queue where group_id = ?1 and id > ?2 order by id limit ?3)
