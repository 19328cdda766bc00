-- health_abandoned · nodes whose leases ran out and were not reclaimed
-- Index: background_job_lease.
-- ?1 rows that are looked at, ?2 µs after which a lease is left lying
select leased_by as node, count(*) as jobs
from   (select leased_by from background_job where leased_by is not null and due_at < now_us() - ?2 order by due_at limit ?1)
group  by leased_by
