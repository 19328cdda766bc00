-- find_dead_letters · the next dead letters that await a person and match a filter
-- Not beyond the newest of the first batch: what dies again while it is being revived is not revived once more.
-- Index: dead_letter_status. Zero rows: no more.
-- ?1 after this id, ?2 up to this id (null: the newest of now), ?3 kind, ?4 manifest, ?5 group, ?6 fingerprint, ?7 reason,
-- ?8 died before, ?9 at most
select d.id, newest.id as newest
from   dead_letter d
cross  join (select coalesce(?2, max(id)) as id from dead_letter) newest
where  d.status = 'awaiting' and d.id > ?1 and d.id <= newest.id
       and (?3 is null or d.kind = ?3)
       and (?4 is null or d.manifest_id = (select m.id from manifest m where m.key = ?4))
       and (?5 is null or d.group_id = (select g.id from manifest_group g where g.name = ?5))
       and (?6 is null or d.fingerprint = ?6)
       and (?7 is null or d.reason = ?7)
       and (?8 is null or d.dead_at < ?8)
order  by d.id limit ?9
