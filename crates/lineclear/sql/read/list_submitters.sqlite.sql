-- list_submitters · submitters that nodes have registered, and how many accepted jobs each holds
-- Zero rows: nodes and remote workers run all jobs.
-- ?1 at most
with held as (
    select leased_by, count(*) as holds from background_job where leased_by is not null group by leased_by
)
select n.id, n.name, n.host as target, n.seen_at as registered_at, coalesce(h.holds, 0) as holds
from   node n
left   join held h on h.leased_by = n.id
where  n.roles = '["submitter"]'
order  by n.name, n.id limit ?1
