-- lease_contend · adds how often a process found a lock busy to the row of its holder
set nocount on;
update lock_lease set contended = contended + @P3, contended_at = datediff_big(microsecond, '1970-01-01', sysutcdatetime())
where lock_name = @P1 and store = @P2;
