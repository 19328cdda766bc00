-- parent_output · the output of a parent, for a job of its dependent
-- Of the job that the turn is for, where turns are told apart; otherwise its newest. Zero rows: it is not a parent.
-- ?1 job, ?2 its manifest, ?3 key of the parent
select case when exists (select 1 from turn_parent t where t.job_id = ?1)
            then (select e.output from turn_parent t
                  join   execution e on e.job_id = t.parent_job_id and e.final and e.outcome = 'completed'
                  where  t.job_id = ?1 and t.parent_id = m.id)
            else s.last_output end as output
from   manifest m
join   manifest_parent p on p.parent_id = m.id and p.child_id = ?2
join   manifest_state s on s.manifest_id = m.id
where  m.key = ?3
