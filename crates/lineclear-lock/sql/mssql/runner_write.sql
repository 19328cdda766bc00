-- runner_write · writes the state of a runner. A moment of its clock that is almost the same is the same one
set nocount on;
declare @now bigint = datediff_big(microsecond, '1970-01-01', sysutcdatetime());
update lock_runner set
  since_at = case when state = @P9 and abs(since_at - (@now - @P10)) < 1000000 then since_at else @now - @P10 end,
  failed_at = case when abs(failed_at - (@now - @P14)) < 1000000 then failed_at else @now - @P14 end,
  state = @P9, epoch = @P11, failures = @P12, last_error = @P13, renewed_at = @now, renew_ms = @P15
where id = @P1;
if @@rowcount = 0
  insert into lock_runner (
    id, lock_name, store, node, machine, pid, incarnation, kind, state, since_at, epoch, failures, last_error, failed_at, renewed_at, renew_ms)
  values (@P1, @P2, @P3, @P4, @P5, @P6, @P7, @P8, @P9, @now - @P10, @P11, @P12, @P13, @now - @P14, @now, @P15);
