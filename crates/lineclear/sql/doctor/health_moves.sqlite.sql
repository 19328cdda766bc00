-- health_moves · recent progress: routes of jobs that were claimed and still run, and kinds of claims that ended
-- As in PostgreSQL. Indexes: background_job_lease, execution_completed, execution_ended, execution_tried.
-- ?1 how far back in µs, ?2 rows to read of each
select 'route' as what, route as word
from   (select route, claimed_at from background_job where leased_by is not null and due_at > 0 order by due_at desc limit ?2)
where  claimed_at > now_us() - ?1
group  by route
union all
select 'kind', kind
from   (select * from (select kind from execution where final and outcome = 'completed' and finished_at > now_us() - ?1
                       order by finished_at desc limit ?2)
        union all
        select * from (select kind from execution where final and outcome <> 'completed' and finished_at > now_us() - ?1
                       order by finished_at desc limit ?2)
        union all
        select * from (select kind from execution where not final and finished_at > now_us() - ?1
                       order by finished_at desc limit ?2))
group  by kind
