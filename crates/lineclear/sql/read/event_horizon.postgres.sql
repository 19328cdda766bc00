-- event_horizon · up to when everything that will ever have happened can be seen
--
-- Rows carry the time at which their transaction began, and are seen when it ends: one that is still under way may bring
-- what happened earlier than what was seen already. So: not beyond the beginning of the oldest transaction of a node, less a
-- second, because a server writes down a moment later that a transaction began. Two minutes are the most: no verb lives so
-- long. They are also what is left where we may not see what others do, because nodes have several roles.
-- A statement of its own: what is read with it must be read after it.
select greatest(now() - interval '2 minutes',
                case when bool_or(application_name = 'lineclear' and (state is null or state = 'disabled'))
                     then now() - interval '2 minutes'
                     else least(now(), min(xact_start) filter (where application_name = 'lineclear')) end
                - interval '1 second') as horizon,
       now() as now
from   pg_stat_activity
where  datname = current_database() and pid <> pg_backend_pid()
