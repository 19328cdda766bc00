-- lock_read · who holds a lock, or held it last; no row: it was never held. A session can acquire its own lock again, so two functions are
-- needed to tell whether it is held
select epoch, holder, kind, ttl_ms,
  case when applock_mode('public', @P1, 'Session') = 'Exclusive' or applock_test('public', @P1, 'Exclusive', 'Session') = 0
    then 1 else 0 end as held
from lock_epoch where name = @P2
