-- parent_output · the output of a parent, for a job of its dependent
-- Of the job that the turn is for, where turns are told apart; otherwise its newest. Zero rows: it is not a parent.
-- Indexes: manifest_key, turn_parent's key, execution_final.
-- $1 job, $2 its manifest, $3 key of the parent
select case when exists (select from {schema}.turn_parent t where t.job_id = $1::bigint)
            then (select e.output from {schema}.turn_parent t
                  join   {schema}.execution e on e.job_id = t.parent_job_id and e.final and e.outcome = 'completed'
                  where  t.job_id = $1::bigint and t.parent_id = m.id)
            else s.last_output end as output
from   {schema}.manifest m
join   {schema}.manifest_parent p on p.parent_id = m.id and p.child_id = $2::bigint
join   {schema}.manifest_state s on s.manifest_id = m.id
where  m.key = $3::text
