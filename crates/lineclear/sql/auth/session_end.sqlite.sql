-- session_end · end a browser session
-- ?1 hash
delete from browser_session where hash = ?1
