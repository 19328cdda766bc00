-- executions_ended(from, to) · the executions that ended in a stretch of time
-- In three parts, because each has an index: execution_completed, execution_ended, execution_tried.
select finished_at, kind, group_id, manifest_id, outcome, due_at, claimed_at, started_at from {schema}.execution
where  final and outcome = 'completed' and finished_at >= {from} and finished_at < {to}
union all
select finished_at, kind, group_id, manifest_id, outcome, due_at, claimed_at, started_at from {schema}.execution
where  final and outcome <> 'completed' and finished_at >= {from} and finished_at < {to}
union all
select finished_at, kind, group_id, manifest_id, outcome, due_at, claimed_at, started_at from {schema}.execution
where  not final and finished_at >= {from} and finished_at < {to}
