-- lock_release · frees the lock if the token is the holder's: 1 freed, 0 another's, -1 nobody's
-- KEYS: the lock · ARGV: token, the channel on which those who wait hear of it
local holder = redis.call('GET', KEYS[1])
if holder == ARGV[1] then
    redis.call('DEL', KEYS[1])
    -- It is a hint: who must not publish may release.
    redis.pcall('PUBLISH', ARGV[2], '')
    return 1
end
return holder and 0 or -1
