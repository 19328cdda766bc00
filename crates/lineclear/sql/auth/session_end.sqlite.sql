-- session_end · a browser logged out
-- ?1 hash
delete from browser_session where hash = ?1
