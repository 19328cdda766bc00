-- session_revoke · end the browser session with this id, which is the beginning of its hash
-- No row: there is none. Every hash is of hexadecimal digits, so 'g' comes after all of them.
-- $1 id
delete from {schema}.browser_session
where  hash >= $1::text and hash < $1::text || 'g'
returning left(hash, 16) as id, token_id, coalesce((select t.name from {schema}.access_token t where t.id = token_id), '') as token_name,
          address, created_at, expires_at
