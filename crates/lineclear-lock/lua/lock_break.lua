-- lock_break · frees the lock of the holder that was seen, and raises the epoch: 1 freed, 0 it is not that holder's
-- KEYS: the lock, what is known of it · ARGV: the token that was seen
if redis.call('GET', KEYS[1]) ~= ARGV[1] then
    return 0
end
-- Where it was never one of ours there is no epoch to raise.
if redis.call('HEXISTS', KEYS[2], 'epoch') == 1 then
    redis.call('HINCRBY', KEYS[2], 'epoch', 1)
end
return redis.call('DEL', KEYS[1])
