-- lock_acquire · grants the lock if it is free, with an end and the next epoch
-- KEYS: the lock, what is known of it · ARGV: token, time to live in ms, holder, kind, 1 if asked again
local holder = redis.call('GET', KEYS[1])
-- The answer to our first try was lost on the way: what was granted then is granted now.
local again = ARGV[5] == '1' and holder == ARGV[1]
if holder and not again then
    return false
end
-- One more than the last; the first one by the clock, so that a Redis that has forgotten all does not begin anew.
local epoch = tonumber(redis.call('HGET', KEYS[2], 'epoch'))
if epoch then
    epoch = epoch + 1
else
    local time = redis.call('TIME')
    epoch = time[1] * 1000 + math.floor(time[2] / 1000)
end
-- The lock comes last: if a write fails, there is a gap in the epochs and nothing worse.
redis.call('HSET', KEYS[2], 'epoch', string.format('%.0f', epoch), 'token', ARGV[1], 'holder', ARGV[3], 'kind', ARGV[4])
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return epoch
