-- token · the columns of an access token, without its hash
id, name, prefix, scopes, kinds, created_at, created_by, expires_at, last_used_at, revoked_at
