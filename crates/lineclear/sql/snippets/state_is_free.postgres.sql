-- state_is_free(manifest) · the state of a job's manifest is among the locked ones (`states`), or the job needs none
({manifest} is null or exists (select from states where states.manifest_id = {manifest})
 or not exists (select from {schema}.manifest_state other where other.manifest_id = {manifest}))
