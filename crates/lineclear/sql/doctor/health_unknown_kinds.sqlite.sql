-- health_unknown_kinds · kinds of jobs that were parked because the node that claimed them does not know the kind
-- As in PostgreSQL. Index: work_queue_unknown.
-- ?1 kinds at most
with recursive k (kind) as (
    select * from (select kind from work_queue where unknown_kind and kind > '' order by kind limit 1)
    union all
    select (select w.kind from work_queue w where w.unknown_kind and w.kind > k.kind order by w.kind limit 1)
    from   k where k.kind is not null
)
select kind from k where kind is not null limit ?1
