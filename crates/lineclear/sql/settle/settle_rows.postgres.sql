-- settle_rows · lock the job rows of a batch, by id
-- $1 jobs
select b.id
from   {schema}.background_job b
where  b.id = any ($1::bigint[])
order  by b.id
for    update
