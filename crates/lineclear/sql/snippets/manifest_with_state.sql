-- manifest_with_state · manifests `m` with their state `s` and group `g`
{schema}.manifest m
join   {schema}.manifest_state s on s.manifest_id = m.id
left   join {schema}.manifest_group g on g.id = m.group_id
