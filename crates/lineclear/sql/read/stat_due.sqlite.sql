-- stat_due · is there something to roll up?
-- As in PostgreSQL. Indexes: execution_completed, execution_ended, execution_tried.
select mark.through, now_us() / 60000000 * 60000000 as closed,
       (select min(first) from (
           select (select finished_at from execution where final and outcome = 'completed' and finished_at >= mark.through - 180000000
                   order by finished_at limit 1) as first
           union all
           select (select finished_at from execution where final and outcome <> 'completed' and finished_at >= mark.through - 180000000
                   order by finished_at limit 1)
           union all
           select (select finished_at from execution where not final and finished_at >= mark.through - 180000000
                   order by finished_at limit 1))) as first
from   stat_mark mark
