-- session_begin · start a browser session for a valid token; it ends no later than the token, and replaces the browser's old session
-- No row: the token is not valid any more. The row lock makes a revocation that comes now wait, and then find the session.
-- $1 hash, $2 token, $3 lives so many ms, $4 address or null, $5 hash of the session that it replaces, or null
with started as (
    insert into {schema}.browser_session (hash, token_id, address, expires_at)
    select $1::text, t.id, $4::text, least(now() + $3::bigint * interval '1 millisecond', t.expires_at)
    from   {schema}.access_token t
    where  t.id = $2::bigint and t.revoked_at is null and (t.expires_at is null or t.expires_at > now())
    for    share of t
    returning expires_at
), replaced as (
    delete from {schema}.browser_session where hash = $5::text and exists (select from started)
)
select expires_at from started
