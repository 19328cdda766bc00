-- reclaim_candidates · claims whose lease ran out, or whose job is long past its time
-- As in PostgreSQL. Indexes: background_job_lease, background_job_deadline.
-- ?1 at most, ?2 leases that ended not before this moment (null: whenever)
select * from (select id from background_job where leased_by is not null and due_at <= now_us() and due_at >= coalesce(?2, 0) order by due_at limit ?1)
union
select * from (select id from background_job where deadline_at <= now_us() and deadline_at >= coalesce(?2, 0) order by deadline_at limit ?1)
