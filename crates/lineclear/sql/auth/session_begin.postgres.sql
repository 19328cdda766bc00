-- session_begin · start a browser session for a valid token; it ends no later than the token
-- No row: the token is not valid any more. The row lock makes a revocation that comes now wait, and then find the session.
-- $1 hash, $2 token, $3 lives so many ms
insert into {schema}.browser_session (hash, token_id, expires_at)
select $1::text, t.id, least(now() + $3::bigint * interval '1 millisecond', t.expires_at)
from   {schema}.access_token t
where  t.id = $2::bigint and t.revoked_at is null and (t.expires_at is null or t.expires_at > now())
for    share of t
returning expires_at
