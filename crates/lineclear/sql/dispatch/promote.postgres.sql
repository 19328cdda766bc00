-- promote · later → ready, for jobs whose time has come
--
-- Rows that are not due stay out of the index that dispatch walks; any node brings due ones in, a batch at a time.
-- Index: work_queue_later. Zero rows: nothing became due.
-- $1 at most
update {schema}.work_queue
set    phase = 'ready'
where  id = any (array (
           select id from {schema}.work_queue
           where  phase = 'later' and due_at <= now()
           order  by due_at
           limit  $1::bigint
           for    no key update skip locked))
returning id
