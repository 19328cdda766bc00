-- event_write · inserts an event that happened @P4 microseconds ago
set nocount on;
declare @now bigint = datediff_big(microsecond, '1970-01-01', sysutcdatetime());
insert into lock_event (lock_name, store, what, [at], holder, epoch, [before], by_whom, why)
values (@P1, @P2, @P3, @now - @P4, @P5, @P6, @P7, @P8, @P9);
