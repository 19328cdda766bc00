-- session_list · a page of valid browser sessions, those that end last first
-- Index: browser_session_expires. The first 16 digits of its hash identify a session, and do not give it away.
-- $1 before this end, $2 and this id, $3 at most
select left(s.hash, 16) as id, s.token_id, t.name as token_name, s.address, s.created_at, s.expires_at
from   {schema}.browser_session s
join   {schema}.access_token t on t.id = s.token_id
where  s.expires_at > now() and t.revoked_at is null
and    ($1::timestamptz is null or (s.expires_at, s.hash) < ($1::timestamptz, $2::text))
order  by s.expires_at desc, s.hash desc
limit  $3::bigint
