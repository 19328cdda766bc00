-- session_begin · start a browser session for a valid token; it ends no later than the token, and replaces the browser's old session
-- No row: the token is not valid any more.
-- ?1 hash, ?2 token, ?3 lives so many ms, ?4 address or null, ?5 hash of the session that it replaces, or null
delete from browser_session
where  hash = ?5
and    exists (select 1 from access_token t where t.id = ?2 and t.revoked_at is null and (t.expires_at is null or t.expires_at > now_us()));
insert into browser_session (hash, token_id, address, created_at, expires_at)
select ?1, t.id, ?4, now_us(), min(now_us() + ?3 * 1000, coalesce(t.expires_at, now_us() + ?3 * 1000))
from   access_token t
where  t.id = ?2 and t.revoked_at is null and (t.expires_at is null or t.expires_at > now_us())
returning expires_at
