-- token_revoke · revoke a token, and end the sessions that were opened with it
-- No row: there is none, or it was revoked before.
-- ?1 id or null, ?2 name or null
delete from browser_session
where  token_id in (select id from access_token where revoked_at is null and (id = ?1 or name = ?2));
update access_token set revoked_at = now_us()
where  revoked_at is null and (id = ?1 or name = ?2)
returning {token}, now_us() as now
