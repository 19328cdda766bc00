-- lease_contend · adds how often a process found locks busy to the rows of their holders
-- $1 names, $2 stores, $3 counts
with input as (
  select * from unnest($1::text[], $2::text[], $3::bigint[]) as i (lock_name, store, busy)
), known as materialized (
  select l.lock_name, l.store, i.busy from {schema}.lock_lease l
  join input i on i.lock_name = l.lock_name and i.store = l.store
  order by l.lock_name, l.store
  for update of l
)
update {schema}.lock_lease l set contended = l.contended + k.busy, contended_at = now()
from known k where l.lock_name = k.lock_name and l.store = k.store
