-- stat_due · is there something to roll up?
--
-- Reads the three minutes before the mark again: a claim carries the time at which its transaction began, and is visible when
-- that ended. When nothing has happened for that long, nothing is written.
-- Reads the first entry of each index: execution_completed, execution_ended, execution_tried.
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
