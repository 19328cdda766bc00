-- lock_read · who holds the lock, for how long, and the last holder of ours
-- KEYS: the lock, its last holder
local known = redis.call('HMGET', KEYS[2], 'epoch', 'token', 'holder', 'kind')
return {redis.call('GET', KEYS[1]), redis.call('PTTL', KEYS[1]), known[1], known[2], known[3], known[4]}
