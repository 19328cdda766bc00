-- health_moves · recent progress: routes of jobs that were claimed and still run, and kinds of claims that ended
-- Finished jobs have no route any more. Reads the last $2 of each.
-- Indexes: background_job_lease, execution_completed, execution_ended, execution_tried.
-- $1 how far back in µs, $2 rows to read of each
select 'route' as what, route as word
from   (select route, claimed_at from {schema}.background_job where leased_by is not null order by due_at desc limit $2::bigint) b
where  claimed_at > now() - $1::bigint * interval '1 microsecond'
group  by route
union all
select 'kind', kind
from   ((select kind from {schema}.execution
         where final and outcome = 'completed' and finished_at > now() - $1::bigint * interval '1 microsecond'
         order by finished_at desc limit $2::bigint)
        union all
        (select kind from {schema}.execution
         where final and outcome <> 'completed' and finished_at > now() - $1::bigint * interval '1 microsecond'
         order by finished_at desc limit $2::bigint)
        union all
        (select kind from {schema}.execution
         where not final and finished_at > now() - $1::bigint * interval '1 microsecond'
         order by finished_at desc limit $2::bigint)) e
group  by kind
