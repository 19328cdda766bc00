-- progress · write the progress of all running jobs of a node in one statement; fenced by (id, claim_no)
--
-- Rows that another transaction has locked are skipped, because waiting for them could deadlock with a settle; the
-- caller writes them next time. Returned: the rows that were written.
-- $1.. job, claim number, progress
with input as materialized (
    select * from unnest($1::bigint[], $2::bigint[], $3::text[]) as i (id, claim_no, progress)
),
free as materialized (
    select b.id from {schema}.background_job b join input i on i.id = b.id and i.claim_no = b.claim_no
    where  b.leased_by is not null
    order  by b.id for no key update of b skip locked
)
update {schema}.background_job as b
set    progress = i.progress
from   input i
where  b.id = i.id and b.claim_no = i.claim_no and b.id = any (array (select id from free))
returning b.id, b.claim_no
