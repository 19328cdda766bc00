-- mark_started · mark isolated jobs, whose workers vanished before, as started
-- ?1 rows of job, claim number
update background_job
set    started_at = now_us()
from   (select value ->> 0 as id, value ->> 1 as claim_no from json_each(?1)) i
where  background_job.id = i.id and background_job.claim_no = i.claim_no and background_job.leased_by is not null
returning background_job.id
