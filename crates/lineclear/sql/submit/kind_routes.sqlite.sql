-- kind_routes · kinds whose jobs leave their nodes, and their routes
-- Zero rows: nodes run all kinds themselves.
select kind, route from kind_route order by kind
