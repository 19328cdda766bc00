-- group_rerank_next · a group whose waiting jobs do not all have the rank that its priority asks for
-- Groups are few. Zero rows: all have it.
select id, version, restamp_after from manifest_group where restamp_after is not null order by id limit 1
