-- lock_acquire · grants the lock if it is free, with an expiry and the next epoch
-- KEYS: the lock, its last holder · ARGV: token, time to live in ms, holder, kind, 1 if sent again
local holder = redis.call('GET', KEYS[1])
-- The answer to the first try was lost: what was granted then is granted now.
local again = ARGV[5] == '1' and holder == ARGV[1]
if holder and not again then
    return false
end
-- One more than the last; the first is the clock, so that epochs do not start again in a Redis that has forgotten everything.
local epoch = tonumber(redis.call('HGET', KEYS[2], 'epoch'))
if epoch then
    epoch = epoch + 1
else
    local time = redis.call('TIME')
    epoch = time[1] * 1000 + math.floor(time[2] / 1000)
end
-- The lock comes last: if a write fails, there is only a gap in the epochs.
redis.call('HSET', KEYS[2], 'epoch', string.format('%.0f', epoch), 'token', ARGV[1], 'holder', ARGV[3], 'kind', ARGV[4])
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return epoch
