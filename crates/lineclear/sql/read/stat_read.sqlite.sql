-- stat_read · statistics of a period, by step and one dimension; executions that are not rolled up yet are counted
-- As in PostgreSQL. Indexes: execution_completed, execution_ended, execution_tried.
-- ?1 from, ?2 up to, ?3 step in seconds, ?4 by: none, kind, group, manifest or outcome, ?5 at most
select at, case ?4 when 'group'    then coalesce((select g.name from manifest_group g where g.id = word), word)
                   when 'manifest' then coalesce((select m.key from manifest m where m.id = word), word)
                   else word end as word,
       outcome, claims, run_ms, run_ms_max, wait_ms, wait_ms_max, (select through from stat_mark) as through, now_us() as now
from  (select {step_of(minute, ?3)} as at,
              case ?4 when 'kind' then kind when 'outcome' then outcome when 'group' then cast(nullif(group_id, 0) as text)
                      when 'manifest' then cast(nullif(manifest_id, 0) as text) end as word,
              outcome, sum(claims) as claims, sum(run_ms) as run_ms, max(run_ms_max) as run_ms_max, sum(wait_ms) as wait_ms,
              max(wait_ms_max) as wait_ms_max
       from  (select minute, kind, group_id, manifest_id, outcome, claims, run_ms, run_ms_max, wait_ms, wait_ms_max
              from   stat_minute where minute >= ?1 and minute < min(?2, (select through from stat_mark))
              union all
              select finished_at, kind, coalesce(group_id, 0), coalesce(manifest_id, 0), outcome, 1, {run_ms}, {run_ms}, {wait_ms}, {wait_ms}
              from  ({executions_ended(max(?1, (select through from stat_mark)), ?2)}))
       group  by 1, 2, 3)
order  by at, word nulls first, outcome
limit  ?5
