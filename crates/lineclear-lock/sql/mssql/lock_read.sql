-- lock_read · who holds a lock, or held it last; no row: nobody ever did. A session may take its own lock again, so that it is asked
-- for in two ways whether it is held
select epoch, holder, kind, ttl_ms,
  case when applock_mode('public', @P1, 'Session') = 'Exclusive' or applock_test('public', @P1, 'Exclusive', 'Session') = 0
    then 1 else 0 end as held
from lock_epoch where name = @P2
