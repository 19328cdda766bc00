-- group_rerank · give waiting jobs of a group the rank that its new priority asks for, a batch at a time
-- Computed afresh and not shifted, so that a half-done pass can be repeated. Rank 0 (its worker died) stays first.
-- Walks the primary key. Null: done.
-- $1 group, $2 after this id, $3 at most
with batch as materialized (
    select id from {schema}.work_queue where group_id = $1::bigint and id > $2::bigint order by id limit $3::bigint
    for    no key update
),
stamped as (
    update {schema}.work_queue as w
    set    rank = {rank(w.due_at, w.priority, g.priority)}
    from   {schema}.manifest_group g
    where  g.id = $1::bigint and w.rank <> 0 and w.id = any (array (select id from batch))
)
select max(id) as last from batch
