-- lease_list · leases by name, with the database's time
-- $1 name or null, $2 after this name and $3 store, or null, $4 only if held and not renewed for so many microseconds, or null, $5 at most
select lock_name, store, node, machine, pid, incarnation, kind, epoch, renew_ms, holds, contended,
  (extract(epoch from since_at) * 1000000)::bigint as since_us,
  (extract(epoch from acquired_at) * 1000000)::bigint as acquired_us,
  (extract(epoch from renewed_at) * 1000000)::bigint as renewed_us,
  (extract(epoch from released_at) * 1000000)::bigint as released_us,
  (extract(epoch from contended_at) * 1000000)::bigint as contended_us,
  (extract(epoch from clock_timestamp()) * 1000000)::bigint as now_us
from {schema}.lock_lease
where ($1::text is null or lock_name = $1) and ($2::text is null or (lock_name, store) > ($2, $3::text))
  and ($4::bigint is null or (released_at is null and renewed_at < now() - $4 * interval '1 microsecond'))
order by lock_name, store
limit $5
