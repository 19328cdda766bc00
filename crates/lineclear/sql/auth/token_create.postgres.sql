-- token_create · create a token, unless one that is not revoked has its name
-- No row: the name is taken.
-- $1 name, $2 prefix, $3 hash, $4 scopes, $5 by whom, $6 lives so many ms, or null, $7 kinds as a JSON list, or null
insert into {schema}.access_token as t (name, prefix, hash, scopes, created_by, expires_at, kinds)
values ($1::text, $2::text, $3::text, $4::text, $5::text, now() + $6::bigint * interval '1 millisecond', $7::text)
on conflict (name) where revoked_at is null do nothing
returning {token}, now() as now
