-- outbox_fail · messages that were not delivered: they wait for their next attempt, behind another one of their key, or are dead
-- Arrays: $1 ids, $2 failed attempts or null if it was none, $3 errors or null, $4 delays in microseconds, or null for dead ones
update {schema}.outbox_message m
set    ready = false,
       aside = i.attempts is null and i.delay_us is not null,
       due_at = now() + coalesce(i.delay_us, 0) * interval '1 microsecond',
       attempts = coalesce(i.attempts, m.attempts),
       last_error = coalesce(i.error, m.last_error),
       failed_at = case when i.error is null then m.failed_at else now() end,
       dead_at = case when i.delay_us is null then now() end
from   unnest($1::bigint[], $2::integer[], $3::text[], $4::bigint[]) as i (id, attempts, error, delay_us)
where  m.id = i.id
