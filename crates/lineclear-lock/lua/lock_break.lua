-- lock_break · frees the lock of the holder that was seen, and raises the epoch: 1 freed, 0 another holder has it
-- KEYS: the lock, its last holder · ARGV: the token that was seen
if redis.call('GET', KEYS[1]) ~= ARGV[1] then
    return 0
end
-- A lock that only other programs have used has no epoch.
if redis.call('HEXISTS', KEYS[2], 'epoch') == 1 then
    redis.call('HINCRBY', KEYS[2], 'epoch', 1)
end
return redis.call('DEL', KEYS[1])
