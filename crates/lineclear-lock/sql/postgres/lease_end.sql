-- lease_end · inserts the event of a hold that ended without a release, and stamps the row as released if it still belongs to that hold
-- $1 name, $2 store, $3 epoch, $4 incarnation or null, $5 what, $6 holder, $7 by whom, $8 why
with ended as (
  update {schema}.lock_lease set released_at = now(), renewed_at = now()
  where lock_name = $1 and store = $2 and epoch = $3 and incarnation = coalesce($4, incarnation) and released_at is null
)
insert into {schema}.lock_event (lock_name, store, what, holder, epoch, by_whom, why)
values ($1, $2, $5, $6, $3, $7, $8)
