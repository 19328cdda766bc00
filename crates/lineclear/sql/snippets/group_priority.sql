-- group_priority(group_id) · the priority of a group; null without one
(select g.priority from {schema}.manifest_group g where g.id = {group_id})
