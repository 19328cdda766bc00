-- clean_audit · old audit entries
-- Index: audit_at.
-- ?1 keep so many ms, ?2 at most
delete from audit
where  id in (select id from audit where at < now_us() - ?1 * 1000 order by at limit ?2);
select changes() as cleaned
