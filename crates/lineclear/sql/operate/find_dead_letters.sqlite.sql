-- find_dead_letters · the next dead letters that await a person and match a filter
-- Not beyond the newest of the first batch: a job that dies again during the revival is not revived once more.
-- Index: dead_letter_status. Zero rows: no more.
-- ?1 after this id, ?2 up to this id (null: the newest of now), ?3 kind, ?4 manifest, ?5 group, ?6 fingerprint, ?7 reason,
-- ?8 died before, ?9 at most
select d.id, newest.id as newest
from   dead_letter d
cross  join (select coalesce(?2, max(id)) as id from dead_letter) newest
where  d.status = 'awaiting' and d.id > ?1 and d.id <= newest.id
       and {dead_letter_fits(?3, ?4, ?5, ?6, ?7, ?8)}
order  by d.id limit ?9
