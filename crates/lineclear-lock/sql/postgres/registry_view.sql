-- registry_view · the same rows for those who know them as nagare_leases
create or replace view {schema}.nagare_leases as
select lock_name, machine || '/' || pid as node_id, machine, pid::integer as pid, kind,
  to_char(acquired_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') as acquired_at,
  to_char(renewed_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') as renewed_at
from {schema}.lock_lease
where released_at is null or released_at > now() - interval '60 seconds'
