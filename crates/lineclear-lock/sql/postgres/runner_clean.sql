-- runner_clean · deletes runners that were not renewed for long: they stopped, or their nodes vanished
-- $1 keep them for so many microseconds, $2 at most
delete from {schema}.lock_runner r
using (select id from {schema}.lock_runner
       where renewed_at < now() - $1 * interval '1 microsecond' limit $2 for update skip locked) i
where r.id = i.id
