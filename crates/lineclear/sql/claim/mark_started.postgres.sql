-- mark_started · mark isolated jobs, whose workers vanished before, as started
-- Until then they count as not started: a job that waits to run alone is not charged for the crash of its node.
-- Zero rows: the claim is lost.
-- $1.. job, claim number
update {schema}.background_job as b
set    started_at = clock_timestamp()
from   unnest($1::bigint[], $2::bigint[]) as i (id, claim_no)
where  b.id = i.id and b.claim_no = i.claim_no and b.leased_by is not null
returning b.id
