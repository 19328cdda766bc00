-- list_dead_letters · a page of dead letters, newest first
-- $1 before this id, $2 status (null: any), $3 at most
select d.id, d.job_id, m.key as manifest_key, d.kind, d.reason, d.fingerprint, d.status, d.note, d.claim_no, d.failures, d.crashes,
       d.last_error, d.dead_at, d.resolved_at, d.resolved_by
from   {schema}.dead_letter d
left   join {schema}.manifest m on m.id = d.manifest_id
where  d.id < $1::bigint and ($2::text is null or d.status = $2::text)
order  by d.id desc limit $3::bigint
