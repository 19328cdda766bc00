-- token_create · create a token, unless one that is not revoked has its name
-- No row: the name is taken.
-- ?1 name, ?2 prefix, ?3 hash, ?4 scopes, ?5 by whom, ?6 lives so many ms, or null, ?7 kinds as a JSON list, or null
insert into access_token (name, prefix, hash, scopes, created_at, created_by, expires_at, kinds)
values (?1, ?2, ?3, ?4, now_us(), ?5, now_us() + ?6 * 1000, ?7)
on conflict (name) where revoked_at is null do nothing
returning {token}, now_us() as now
