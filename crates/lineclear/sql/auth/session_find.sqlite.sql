-- session_find · the token of a browser session, if both are still valid
-- ?1 hash
select t.id, t.name, t.hash, t.scopes, t.kinds, s.expires_at <= now_us() or t.revoked_at is not null or coalesce(t.expires_at <= now_us(), 0) as over,
       (s.expires_at - now_us()) / 1000 as left_ms, coalesce(t.last_used_at < now_us() - 60000000, 1) as unused, s.expires_at
from   browser_session s
join   access_token t on t.id = s.token_id
where  s.hash = ?1
