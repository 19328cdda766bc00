-- settle_rows · lock the job rows of a batch, by id
-- A row that another transaction holds is skipped: it is settled later, and no other waits for it.
-- $1 jobs
select b.id
from   {schema}.background_job b
where  b.id = any ($1::bigint[])
order  by b.id
for    update skip locked
