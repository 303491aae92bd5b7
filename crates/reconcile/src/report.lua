-- Takes the reports of a gateway, and returns the time in milliseconds and, for each counter, what others have counted.
-- KEYS: one for each counter in a window. ARGV: the gateway, then for each key its count and how long to keep the key.
-- Of each key, the fields are the counts of the gateways and `sum`. A count only grows, so that a report that arrives
-- twice or late changes nothing.
local gateway = ARGV[1]
local time = redis.call('TIME')
local reply = { time[1] * 1000 + math.floor(time[2] / 1000) }
for number, key in ipairs(KEYS) do
  local count, keep_ms = ARGV[2 * number], ARGV[2 * number + 1]
  local known = redis.call('HMGET', key, gateway, 'sum')
  local own, sum = tonumber(known[1] or 0), tonumber(known[2] or 0)
  local new = tonumber(count) - own
  if new > 0 then
    sum = sum + new
    own = own + new
    redis.call('HSET', key, gateway, count, 'sum', string.format('%.0f', sum))
    redis.call('PEXPIRE', key, keep_ms)
  end
  reply[number + 1] = sum - own
end
return reply
