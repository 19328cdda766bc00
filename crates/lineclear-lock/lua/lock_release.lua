-- lock_release · frees the lock if the token is the holder's: 1 freed, 0 held by another, -1 free
-- KEYS: the lock · ARGV: token, the channel on which waiters listen
local holder = redis.call('GET', KEYS[1])
if holder == ARGV[1] then
    redis.call('DEL', KEYS[1])
    -- A hint only: a user without the right to publish may still release.
    redis.pcall('PUBLISH', ARGV[2], '')
    return 1
end
return holder and 0 or -1
