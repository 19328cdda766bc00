-- reroute · a claimed job goes to the route of its kind, or to the route that its node names, with the release that follows; fenced by (id, claim_no)
-- If the node dies before the release, the lease runs out, and the job goes there all the same.
-- Zero rows: its kind has no other route, or the claim is lost.
-- $1 job, $2 claim number, $3 route, or null for that of its kind
update {schema}.background_job as b
set    route = r.route
from   (select coalesce($3::text, (select k.route from {schema}.kind_route k
                                   where  k.kind = (select j.kind from {schema}.background_job j where j.id = $1::bigint))) as route) r
where  b.id = $1::bigint and b.claim_no = $2::bigint and b.leased_by is not null and r.route <> b.route
returning b.id
