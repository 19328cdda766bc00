-- session_revoke · end the browser session with this id, which is the beginning of its hash
-- No row: there is none. Every hash is of hexadecimal digits, so 'g' comes after all of them.
-- ?1 id
delete from browser_session
where  hash >= ?1 and hash < ?1 || 'g'
returning substr(hash, 1, 16) as id, token_id, coalesce((select t.name from access_token t where t.id = token_id), '') as token_name,
          address, created_at, expires_at
