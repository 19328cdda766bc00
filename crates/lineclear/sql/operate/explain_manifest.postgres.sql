-- explain_manifest · what decides whether a manifest makes a job
-- Its jobs take the route of their kind. Indexes: manifest_key, kind_route_pkey, node_incarnation. Zero rows: there is none, or it was removed.
-- $1 key
select {manifest}, s.arrived, now() as now, coalesce(k.route, m.route) as goes_to, n.host as submitter
from   {manifest_with_state}
left   join {schema}.kind_route k on k.kind = m.kind and m.route = 'main'
left   join {schema}.node n on n.incarnation = 'submitter:' || coalesce(k.route, m.route)
where  m.key = $1::text and m.removed_at is null
