-- token_find · the token with a prefix, and whether it is still valid
-- Index: access_token_prefix.
-- ?1 prefix
select id, name, hash, scopes, kinds, revoked_at is not null or coalesce(expires_at <= now_us(), 0) as over,
       (expires_at - now_us()) / 1000 as left_ms, coalesce(last_used_at < now_us() - 60000000, 1) as unused
from   access_token where prefix = ?1
