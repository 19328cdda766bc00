-- list_dead_letters · a page of dead letters, newest first, of those that match
-- Reads at most $10 rows and filters those: a rare match cannot make it read all of them. `seen_down_to` is where the next page
-- begins (null: this was the last). Always one row at least.
-- Index: dead_letter_status, or the primary key.
-- $1 before this id, $2 status (null: any), $3 at most, $4 kind, $5 manifest, $6 group, $7 fingerprint, $8 reason, $9 died before,
-- $10 window
with looked as materialized (
    select id, kind, manifest_id, group_id, fingerprint, reason, dead_at
    from   {schema}.dead_letter
    where  id < $1::bigint and ($2::text is null or status = $2::text)
    order  by id desc limit $10::bigint
), found as materialized (
    select id from looked
    where  {dead_letter_fits($4::text, $5::text, $6::text, $7::text, $8::text, $9::timestamptz)}
    order  by id desc limit $3::bigint
)
select bottom.id as seen_down_to, d.id, d.job_id, m.key as manifest_key, d.kind, d.reason, d.fingerprint, d.status, d.note,
       d.claim_no, d.failures, d.crashes, d.last_error, d.dead_at, d.resolved_at, d.resolved_by
from   (select case when count(*) >= $10::bigint then min(id) end as id from looked) bottom
left   join found on true
left   join {schema}.dead_letter d on d.id = found.id
left   join {schema}.manifest m on m.id = d.manifest_id
order  by d.id desc
