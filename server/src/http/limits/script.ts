/**
 * The script that Redis or Valkey runs for the limits. It takes any number of operations and answers each with two or
 * three whole numbers, or with an empty list where its key holds a value of another type. Redis's own clock counts,
 * so that the clocks of gateways need not agree.
 */

/** One operation of the script: its key in Redis and its arguments. */
export interface ScriptOperation {
  readonly key: string
  readonly words: readonly string[]
}

/** The numbers that the script answers one operation with; the list of operations below has their meaning. */
export type ScriptAnswer = readonly number[]

/**
 * - `rate INTERVAL BURST 0`: as `takeToken` in `bucket.ts`; answers 1 or 0, when the bucket is full, and now.
 * - `take MEMBER TTL LIMIT`: a place of an open request, for TTL microseconds; answers 1 or 0, and how many are taken.
 * - `keep MEMBER TTL 0`: the place for another TTL, also where it was forgotten.
 * - `give MEMBER 0 0`: gives it back.
 */
export const LIMITS_SCRIPT = `
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local answers = {}
local function failed(reply) return type(reply) == 'table' and reply.err ~= nil end
for i, key in ipairs(KEYS) do
  local at = i * 4 - 3
  local kind, first, second, third = ARGV[at], ARGV[at + 1], tonumber(ARGV[at + 2]), tonumber(ARGV[at + 3])
  if kind == 'rate' then
    local interval = tonumber(first)
    local capacity = interval * second
    local stored = redis.pcall('GET', key)
    local full = not failed(stored) and tonumber(stored or '0') or nil
    if full == nil then
      answers[i] = {}
    else
      full = math.min(math.max(full, now), now + capacity)
      local admitted = 0
      if full + interval - now <= capacity then
        admitted = 1
        full = full + interval
        redis.call('SET', key, string.format('%.0f', full), 'PX', math.ceil((full - now) / 1000))
      end
      answers[i] = { admitted, full, now }
    end
  elseif kind == 'give' then
    answers[i] = failed(redis.pcall('ZREM', key, first)) and {} or { 1, 0 }
  elseif failed(redis.pcall('ZREMRANGEBYSCORE', key, '-inf', string.format('%.0f', now))) then
    answers[i] = {}
  else
    local taken = redis.call('ZCARD', key)
    if kind == 'keep' or taken < third then
      redis.call('ZADD', key, string.format('%.0f', now + second), first)
      redis.call('PEXPIRE', key, math.ceil(second / 1000))
      answers[i] = { 1, taken }
    else
      answers[i] = { 0, taken }
    end
  end
end
return answers
`

/** Keys of one installation's limits; others may use the same store. */
const PREFIX = 'tollgate:'

export function rateOperation(keyId: string, intervalMicros: number, burst: number): ScriptOperation {
  return { key: `${PREFIX}rate:${keyId}`, words: ['rate', `${intervalMicros}`, `${burst}`, '0'] }
}

export function placeOperation(
  kind: 'take' | 'keep' | 'give',
  place: { readonly keyId: string; readonly member: string },
  ttlMicros = 0,
  limit = 0,
): ScriptOperation {
  return { key: `${PREFIX}open:${place.keyId}`, words: [kind, place.member, `${ttlMicros}`, `${limit}`] }
}

/** Shows that the script runs and may write; the bucket is nobody's. */
export const PROBE: ScriptOperation = rateOperation('probe', 100, 10_000)
