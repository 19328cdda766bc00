-- progress · write the progress of all running jobs of a node in one statement; fenced by (id, claim_no)
-- As in PostgreSQL, but SQLite has no row locks. Returned: the rows that were written.
-- ?1 rows of job, claim number, progress
update background_job
set    progress = i.progress
from   (select value ->> 0 as id, value ->> 1 as claim_no, value ->> 2 as progress from json_each(?1)) i
where  background_job.id = i.id and background_job.claim_no = i.claim_no and background_job.leased_by is not null
returning background_job.id, background_job.claim_no
