-- promote · later → ready, for jobs whose time has come
-- Index: work_queue_later.
-- ?1 at most
update work_queue
set    phase = 'ready'
where  id in (select id from work_queue where phase = 'later' and due_at <= now_us() order by due_at limit ?1)
returning id
