-- token_used · record that a token was used; once a minute is enough
-- ?1 id
update access_token set last_used_at = now_us()
where  id = ?1 and (last_used_at is null or last_used_at < now_us() - 60000000)
