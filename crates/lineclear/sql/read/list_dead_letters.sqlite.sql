-- list_dead_letters · a page of dead letters, newest first, of those that match
-- Reads at most ?10 rows and filters those: a rare match cannot make it read all of them. `seen_down_to` is where the next page
-- begins (null: this was the last). Always one row at least.
-- Index: dead_letter_status, or the primary key: SQLite chooses before it knows which is asked for, so there is a part for each.
-- ?1 before this id, ?2 status (null: any), ?3 at most, ?4 kind, ?5 manifest, ?6 group, ?7 fingerprint, ?8 reason, ?9 died before,
-- ?10 window
with looked as materialized (
    select * from (select id, kind, manifest_id, group_id, fingerprint, reason, dead_at
                   from dead_letter where ?2 is null and id < ?1 order by id desc limit ?10)
    union all
    select * from (select id, kind, manifest_id, group_id, fingerprint, reason, dead_at
                   from dead_letter where status = ?2 and id < ?1 order by id desc limit ?10)
), found as materialized (
    select id from looked
    where  {dead_letter_fits(?4, ?5, ?6, ?7, ?8, ?9)}
    order  by id desc limit ?3
)
select bottom.id as seen_down_to, d.id, d.job_id, m.key as manifest_key, d.kind, d.reason, d.fingerprint, d.status, d.note,
       d.claim_no, d.failures, d.crashes, d.last_error, d.dead_at, d.resolved_at, d.resolved_by
from   (select case when count(*) >= ?10 then min(id) end as id from looked) bottom
left   join found on true
left   join dead_letter d on d.id = found.id
left   join manifest m on m.id = d.manifest_id
order  by d.id desc
