-- clean_session · expired browser sessions
-- Index: browser_session_expires.
-- ?1 at most
delete from browser_session
where  hash in (select hash from browser_session where expires_at < now_us() order by expires_at limit ?1);
select changes() as cleaned
