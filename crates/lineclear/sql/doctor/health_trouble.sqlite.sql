-- health_trouble · counts of problems: leases not reclaimed, jobs set aside, dead letters and manifests that wait
-- As in PostgreSQL. Indexes: background_job_lease, work_queue_unknown, dead_letter_status, manifest_due.
-- ?1 count up to, ?2 µs after which something is late
select (select count(*) from (select 1 from background_job where leased_by is not null and due_at < now_us() - ?2
                              order by due_at limit ?1)) as leases_over,
       (select min(due_at) from background_job where leased_by is not null) as lease_over_at,
       (select count(*) from (select 1 from work_queue where unknown_kind and kind > '' order by kind, id limit ?1)) as unknown,
       (select dead_at from dead_letter where status = 'awaiting' order by id limit 1) as dead_at,
       (select count(*) from (select 1 from manifest where enabled and not held and next_due_at is not null
                              and next_due_at < now_us() - ?2 order by next_due_at, id limit ?1)) as late,
       (select min(next_due_at) from manifest where enabled and not held and next_due_at is not null) as next_due_at
