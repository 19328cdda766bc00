-- token_revoke · revoke a token, and end the sessions that were opened with it
-- No row: there is none, or it was revoked before.
-- $1 id or null, $2 name or null
with revoked as (
    update {schema}.access_token set revoked_at = now()
    where  revoked_at is null and (id = $1::bigint or name = $2::text)
    returning {token}
), ended as (
    delete from {schema}.browser_session where token_id in (select id from revoked)
)
select *, now() as now from revoked
