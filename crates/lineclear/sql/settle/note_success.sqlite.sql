-- note_success · the last success of manifests whose states were held when their jobs were settled
-- Never needed here: the transaction's write lock covers all states. Kept alike, so that both databases have the same files.
-- ?1 rows of manifest, job, how many ms ago, output
update manifest_state
set    last_success_at = now_us() - (i.value ->> 2) * 1000, last_success_job_id = i.value ->> 1, last_output = i.value ->> 3
from   json_each(?1) i
where  manifest_state.manifest_id = i.value ->> 0
       and coalesce(manifest_state.last_success_at, 0) < now_us() - (i.value ->> 2) * 1000;
select i.value ->> 0 as manifest_id from json_each(?1) i
