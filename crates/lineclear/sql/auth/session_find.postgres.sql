-- session_find · the token of a browser session, if both are still valid
-- $1 hash
select t.id, t.name, t.hash, t.scopes, t.kinds, s.expires_at <= now() or t.revoked_at is not null or coalesce(t.expires_at <= now(), false) as over,
       (extract(epoch from s.expires_at - now()) * 1000)::bigint as left_ms,
       coalesce(t.last_used_at < now() - interval '1 minute', true) as unused, s.expires_at
from   {schema}.browser_session s
join   {schema}.access_token t on t.id = s.token_id
where  s.hash = $1::text
