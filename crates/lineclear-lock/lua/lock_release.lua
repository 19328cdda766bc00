-- lock_release · frees the lock if the token is the holder's: 1 freed, 0 another's, -1 nobody's
-- KEYS: the lock · ARGV: token
local holder = redis.call('GET', KEYS[1])
if holder == ARGV[1] then
    return redis.call('DEL', KEYS[1])
end
return holder and 0 or -1
