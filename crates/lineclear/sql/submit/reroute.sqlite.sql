-- reroute · a claimed job goes to the route of its kind, or to the route that its node names, with the release that follows; fenced by (id, claim_no)
-- As in PostgreSQL.
-- ?1 job, ?2 claim number, ?3 route, or null for that of its kind
update background_job
set    route = coalesce(?3, (select k.route from kind_route k where k.kind = background_job.kind))
where  id = ?1 and claim_no = ?2 and leased_by is not null
       and route <> coalesce(?3, (select k.route from kind_route k where k.kind = background_job.kind))
returning id
