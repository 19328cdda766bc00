-- event_horizon · the time up to which no further event can appear
--
-- Rows carry the time at which their transaction began, and become visible when it ends: an open transaction may add rows
-- that are older than visible ones. So the horizon is the beginning of the oldest transaction of a node, less a second,
-- because the server records that beginning a moment later. It is at most two minutes ago: no transaction of ours takes so
-- long. Two minutes also apply where this role may not see other sessions, because nodes connect with several roles.
-- A separate statement: the rows must be read after the horizon.
select greatest(now() - interval '2 minutes',
                case when bool_or(application_name = 'lineclear' and (state is null or state = 'disabled'))
                     then now() - interval '2 minutes'
                     else least(now(), min(xact_start) filter (where application_name = 'lineclear')) end
                - interval '1 second') as horizon,
       now() as now
from   pg_stat_activity
where  datname = current_database() and pid <> pg_backend_pid()
