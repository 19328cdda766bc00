-- lock_extend · whether this session holds the server's lock
select case when applock_mode('public', @P1, 'Session') = 'Exclusive' then 1 else 0 end as held
