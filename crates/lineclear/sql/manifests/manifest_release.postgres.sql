-- manifest_release · a manifest none of whose dead letters awaits a person may be planned again
-- next_due_at lies in the past then, and the misfire rule decides about the time in between.
-- Index: dead_letter_manifest.
-- $1 manifest ids, locked
update {schema}.manifest m
set    held = false
where  m.id = any ($1::bigint[]) and m.held
       and not exists (select from {schema}.dead_letter d where d.manifest_id = m.id and d.status = 'awaiting')
returning m.id
