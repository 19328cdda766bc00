-- health_moves · what got on lately: routes of jobs that were claimed and still run, and kinds of claims that ended
-- What is over has no route any more. Of each, the last $2 are looked at.
-- Indexes: background_job_lease, execution_completed, execution_ended, execution_tried.
-- $1 µs that are lately, $2 rows of each that are looked at
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
