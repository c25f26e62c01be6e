import { expect, test } from 'bun:test'
import { TurnedClock } from '../../../test/clock.ts'
import { exchangeOf, pipelineParts, TEST_ADDRESS, TEST_KEY, TEST_SESSION } from '../../../test/exchange.ts'
import { createRateLimiter } from '../limits/rateLimit.ts'
import { rate } from './rate.ts'

const clock = new TurnedClock()
const limits = { rateLimit: { perSecond: 1, burst: 3 }, newAccountRateLimit: { perSecond: 1, burst: 2 } }

async function passing(principal: Parameters<typeof exchangeOf>[2], parts = pipelineParts({ clock, ...limits })) {
  const step = rate(parts)
  for (let count = 0; count < 1_000; count += 1) {
    const exchange = exchangeOf('/v1/things', {}, principal)
    const refused = await step(exchange)
    expect(exchange.rate).not.toBeNull()
    if (refused !== null) return [count, refused.code, refused.message.slice(0, 13)]
  }
  return [Number.POSITIVE_INFINITY]
}

test.each([
  ['a key', TEST_KEY, [3, 'rate_limit_exceeded', 'This key send']],
  [
    'a key of a new organization',
    { ...TEST_KEY, newUntilMs: clock.now() + 1 },
    [2, 'rate_limit_exceeded', 'This key send'],
  ],
  ['one that is new no longer', { ...TEST_KEY, newUntilMs: clock.now() }, [3, 'rate_limit_exceeded', 'This key send']],
  ['a session', TEST_SESSION, [3, 'rate_limit_exceeded', 'This session ']],
  ['an address', TEST_ADDRESS, [100, 'rate_limit_exceeded', 'This address ']],
])('%s', async (_name, principal, expected) => {
  expect(await passing({ principal })).toEqual(expected)
})

test('each caller has a bucket of its own, and addresses have theirs in another table', async () => {
  const parts = pipelineParts({ clock, ...limits })
  expect(await passing({ principal: TEST_KEY }, parts)).toEqual([3, 'rate_limit_exceeded', 'This key send'])
  expect((await passing({ principal: TEST_SESSION }, parts))[0]).toBe(3)
  expect((await passing({ principal: { kind: 'public', address: TEST_KEY.id } }, parts))[0]).toBe(100)
})

test('a table of addresses holds so many and no more: the one that called longest ago begins anew', () => {
  const limiter = createRateLimiter(clock, 4)
  const limit = { perSecond: 1, burst: 1 }
  const take = (address: string) => limiter.take(address, limit)
  expect(take('a')).toMatchObject({ admitted: true })
  expect(take('a')).toMatchObject({ admitted: false })
  for (const other of ['b', 'c', 'd', 'e']) take(other)
  expect(take('a')).toMatchObject({ admitted: true })
})

test('answers at once in one process, and waits for a store that processes share', async () => {
  const parts = pipelineParts({ clock })
  expect(rate(parts)(exchangeOf('/v1/things', {}, { principal: TEST_KEY }))).toBeNull()
  const shared = { take: async (id: string, limit: typeof limits.rateLimit) => parts.rateLimiter.take(id, limit) }
  const waiting = rate({ ...parts, rateLimiter: shared })(exchangeOf('/v1/things', {}, { principal: TEST_KEY }))
  expect(waiting).toBeInstanceOf(Promise)
  expect(await waiting).toBeNull()
})

test('a signed sender is never counted by its name: that would be after the hash', () => {
  const signed = { kind: 'signed', sender: 'payments' } as const
  expect(() => rate(pipelineParts())(exchangeOf('/v1/things', {}, { principal: signed }))).toThrow(
    'before it is verified',
  )
})
