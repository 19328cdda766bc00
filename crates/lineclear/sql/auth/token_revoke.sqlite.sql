-- token_revoke · a token counts no more, and nobody who logged in with it stays
-- No row: there is none, or it was revoked before.
-- ?1 id or null, ?2 name or null
delete from browser_session
where  token_id in (select id from access_token where revoked_at is null and (id = ?1 or name = ?2));
update access_token set revoked_at = now_us()
where  revoked_at is null and (id = ?1 or name = ?2)
returning id, name, prefix, scopes, created_at, created_by, expires_at, last_used_at, revoked_at, now_us() as now
