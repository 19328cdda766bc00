-- promote · later → ready, for jobs whose time has come, in rank order
-- As in PostgreSQL. Indexes: work_queue_urgency, work_queue_later.
-- ?1 at most
update work_queue
set    phase = 'ready'
where  id in (
           with recursive urgency (us, n) as (
               select * from (select {urgency(due_at, rank)}, 1 from work_queue
                              where  phase = 'later' and {urgency(due_at, rank)} > -9223372036854775808
                              order by {urgency(due_at, rank)} desc limit 1)
               union all
               select (select {urgency(w.due_at, w.rank)} from work_queue w
                       where  w.phase = 'later' and {urgency(w.due_at, w.rank)} < urgency.us
                       order  by {urgency(w.due_at, w.rank)} desc limit 1), n + 1
               from   urgency where urgency.us is not null and n < 64
           )
           select id from (
               select first.id, first.rank
               from   urgency
               cross  join work_queue first
                      on first.id in (select w.id from work_queue w
                                      where  w.phase = 'later' and {urgency(w.due_at, w.rank)} = urgency.us and w.due_at <= now_us()
                                      order  by w.due_at limit ?1)
               union
               select * from (select id, rank from work_queue where phase = 'later' and due_at <= now_us()
                              order by due_at limit ?1))
           order  by rank, id limit ?1);
select changes() as promoted, changes() as due, now_us() as now
