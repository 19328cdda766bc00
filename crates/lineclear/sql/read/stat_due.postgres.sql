-- stat_due · is there something to roll up?
--
-- Three minutes before the mark are looked at again: a claim is dated when its transaction began, and seen when it ended. When
-- nothing has happened for that long, there is no first one, and nothing is written.
-- Each is the first of an index: execution_completed, execution_ended, execution_tried.
select m.through, date_trunc('minute', now()) as closed,
       least((select e.finished_at from {schema}.execution e
              where  e.final and e.outcome = 'completed' and e.finished_at >= m.through - interval '3 minutes'
              order  by e.finished_at limit 1),
             (select e.finished_at from {schema}.execution e
              where  e.final and e.outcome <> 'completed' and e.finished_at >= m.through - interval '3 minutes'
              order  by e.finished_at limit 1),
             (select e.finished_at from {schema}.execution e
              where  not e.final and e.finished_at >= m.through - interval '3 minutes'
              order  by e.finished_at limit 1)) as first
from   {schema}.stat_mark m
