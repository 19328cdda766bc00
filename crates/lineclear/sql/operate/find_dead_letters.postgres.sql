-- find_dead_letters · the next dead letters that await a person and match a filter
-- Not beyond the newest of the first batch: what dies again while it is being revived is not revived once more.
-- Index: dead_letter_status. Zero rows: no more.
-- $1 after this id, $2 up to this id (null: the newest of now), $3 kind, $4 manifest, $5 group, $6 fingerprint, $7 reason,
-- $8 died before, $9 at most
select d.id, newest.id as newest
from   {schema}.dead_letter d
cross  join (select coalesce($2::bigint, max(id)) as id from {schema}.dead_letter) newest
where  d.status = 'awaiting' and d.id > $1::bigint and d.id <= newest.id
       and ($3::text is null or d.kind = $3::text)
       and ($4::text is null or d.manifest_id = (select m.id from {schema}.manifest m where m.key = $4::text))
       and ($5::text is null or d.group_id = (select g.id from {schema}.manifest_group g where g.name = $5::text))
       and ($6::text is null or d.fingerprint = $6::text)
       and ($7::text is null or d.reason = $7::text)
       and ($8::timestamptz is null or d.dead_at < $8::timestamptz)
order  by d.id limit $9::bigint
