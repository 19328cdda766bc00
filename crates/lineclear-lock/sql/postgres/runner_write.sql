-- runner_write · writes the states of runners of one process. A moment of its clock that is almost the same is the same one
with input as (
  select i.*, now() - i.since_ago * interval '1 microsecond' as since_at, now() - i.failed_ago * interval '1 microsecond' as failed_at
  from unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::bigint[], $7::text[], $8::text[], $9::text[],
              $10::bigint[], $11::bigint[], $12::bigint[], $13::text[], $14::bigint[], $15::bigint[])
    as i (id, lock_name, store, node, machine, pid, incarnation, kind, state, since_ago, epoch, failures, last_error, failed_ago, renew_ms)
)
insert into {schema}.lock_runner as r (
  id, lock_name, store, node, machine, pid, incarnation, kind, state, since_at, epoch, failures, last_error, failed_at, renewed_at, renew_ms)
select id, lock_name, store, node, machine, pid, incarnation, kind, state, since_at, epoch, failures, last_error, failed_at, now(), renew_ms
from input
order by id
on conflict (id) do update set
  state = excluded.state, epoch = excluded.epoch, failures = excluded.failures, last_error = excluded.last_error,
  renewed_at = excluded.renewed_at, renew_ms = excluded.renew_ms,
  since_at = case when r.state = excluded.state and r.since_at - excluded.since_at between interval '-1 second' and interval '1 second'
    then r.since_at else excluded.since_at end,
  failed_at = case when r.failed_at - excluded.failed_at between interval '-1 second' and interval '1 second'
    then r.failed_at else excluded.failed_at end
