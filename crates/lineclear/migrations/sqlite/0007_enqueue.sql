-- 0007_enqueue · jobs from any language, inside the caller's own transaction.
-- SQLite has no stored functions; programs that share its file use the library. Nothing to do.
select 1;
