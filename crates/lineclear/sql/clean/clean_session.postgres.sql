-- clean_session · expired browser sessions
-- Index: browser_session_expires.
-- $1 at most
with gone as (
    delete from {schema}.browser_session where hash = any (array (
        select hash from {schema}.browser_session
        where  expires_at < now() order by expires_at limit $1::bigint for update skip locked))
    returning 1
)
select count(*) as cleaned from gone
