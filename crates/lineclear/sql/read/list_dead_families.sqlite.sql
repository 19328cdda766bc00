-- list_dead_families · dead letters that await a person and match, put together by kind, reason and family of errors, the largest first
-- Reads only the newest ?7. Always one row at least: `looked` is how many were read, `total` how many match.
-- Index: dead_letter_status, or dead_letter_awaiting.
-- ?1 kind, ?2 manifest, ?3 group, ?4 fingerprint, ?5 reason, ?6 died before, ?7 window, ?8 at most
with looked as materialized (
    select id, kind, manifest_id, group_id, fingerprint, reason, dead_at
    from   dead_letter where status = 'awaiting'
    order  by id desc limit ?7
), found as materialized (
    select id, kind, reason, fingerprint, dead_at from looked
    where  {dead_letter_fits(?1, ?2, ?3, ?4, ?5, ?6)}
), family as (
    select kind, reason, fingerprint, count(*) as count, min(dead_at) as first_at, max(dead_at) as last_at, max(id) as newest
    from   found group by kind, reason, fingerprint
    order  by count desc, newest desc limit ?8
)
select (select count(*) from looked) as looked, (select count(*) from found) as total, now_us() as now,
       family.kind, family.reason, family.fingerprint, family.count, family.first_at, family.last_at, d.job_id, d.last_error
from   (select 1) one
left   join family on true
left   join dead_letter d on d.id = family.newest
order  by family.count desc, family.newest desc
