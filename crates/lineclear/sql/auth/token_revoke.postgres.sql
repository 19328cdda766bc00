-- token_revoke · a token counts no more, and nobody who logged in with it stays
-- No row: there is none, or it was revoked before.
-- $1 id or null, $2 name or null
with revoked as (
    update {schema}.access_token set revoked_at = now()
    where  revoked_at is null and (id = $1::bigint or name = $2::text)
    returning id, name, prefix, scopes, created_at, created_by, expires_at, last_used_at, revoked_at
), ended as (
    delete from {schema}.browser_session where token_id in (select id from revoked)
)
select *, now() as now from revoked
