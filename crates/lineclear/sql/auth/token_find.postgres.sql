-- token_find · the token with a prefix, and whether it is still valid
-- Index: access_token_prefix.
-- $1 prefix
select id, name, hash, scopes, kinds, revoked_at is not null or coalesce(expires_at <= now(), false) as over,
       (extract(epoch from expires_at - now()) * 1000)::bigint as left_ms,
       coalesce(last_used_at < now() - interval '1 minute', true) as unused
from   {schema}.access_token where prefix = $1::text
