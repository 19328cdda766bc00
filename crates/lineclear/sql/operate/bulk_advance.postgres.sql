-- bulk_advance · record a finished portion of a bulk operation, in the transaction that did it
-- $1 bulk operation, $2 position (null: that was all), $3 done, $4 skipped, $5 lease in ms, $6 the canary that was let go (null: none)
update {schema}.bulk_operation
set    position = coalesce($2::bigint, position), done = done + $3::bigint, skipped = skipped + $4::bigint,
       status = case when $2::bigint is null then 'done' else status end,
       finished_at = case when $2::bigint is null then now() end,
       lease_ends_at = now() + $5::bigint * interval '1 millisecond',
       canary_job_id = coalesce($6::bigint, canary_job_id),
       begun_at = case when $6::bigint is null then begun_at else now() end,
       look_at = case when $6::bigint is not null then now() + interval '1 second' end,
       leased_by = case when $6::bigint is null then leased_by end
where  id = $1::bigint
returning {bulk_operation}
