-- lock_extend · moves the lock's expiry if the token is the holder's
-- KEYS: the lock · ARGV: token, time to live in ms
if redis.call('GET', KEYS[1]) == ARGV[1] then
    return redis.call('PEXPIRE', KEYS[1], ARGV[2])
end
return 0
