-- list_ticks · what became of a manifest's ticks, newest first
-- Index: tick_once.
-- ?1 manifest id, ?2 before this moment (null: from the newest), ?3 at most
select tick_at, until_tick_at, job_id, skip_reason
from   tick
where  manifest_id = ?1 and (?2 is null or tick_at < ?2)
order  by tick_at desc limit ?3
