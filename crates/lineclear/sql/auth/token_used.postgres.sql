-- token_used · record that a token was used; once a minute is enough
-- $1 id
update {schema}.access_token set last_used_at = now()
where  id = $1::bigint and (last_used_at is null or last_used_at < now() - interval '1 minute')
