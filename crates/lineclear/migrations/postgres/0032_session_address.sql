-- 0032_session_address · where a browser logged in, so that an operator can tell sessions apart.
-- Null: the server was of an older release, or does not know.
alter table {schema}.browser_session add column address text;
