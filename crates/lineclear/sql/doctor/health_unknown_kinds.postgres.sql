-- health_unknown_kinds · kinds of jobs that were parked because the node that claimed them does not know the kind
-- Goes from kind to kind in the index, however many jobs each has. Index: work_queue_unknown.
-- $1 kinds at most
with recursive k as (
    (select kind from {schema}.work_queue where unknown_kind order by kind limit 1)
    union all
    select (select w.kind from {schema}.work_queue w where w.unknown_kind and w.kind > k.kind order by w.kind limit 1)
    from   k where k.kind is not null
)
select kind from k where kind is not null limit $1::bigint
