import { afterAll, beforeAll, expect, test } from 'bun:test'
import { fc } from '../../../test/properties.ts'
import { startRedis, type TestRedis } from '../../../test/redis.ts'
import { connectRedis, type RedisConnection } from '../../infra/redis/connection.ts'
import { intervalMicros, takeToken } from './bucket.ts'
import { LIMITS_SCRIPT, placeOperation, rateOperation, type ScriptOperation } from './script.ts'

let redis: TestRedis
let connection: RedisConnection
beforeAll(async () => {
  redis = await startRedis()
  connection = await connectRedis(redis.url, 5_000)
})
afterAll(async () => {
  connection.close()
  await redis.kill()
})

async function run(...operations: readonly ScriptOperation[]): Promise<readonly (readonly number[])[]> {
  const keys = operations.map(({ key }) => key)
  const words = operations.flatMap((operation) => operation.words)
  const answers = await connection.send('EVAL', [LIMITS_SCRIPT, `${keys.length}`, ...keys, ...words])
  return answers as readonly (readonly number[])[]
}

test('it decides as the pure function at the same instant, whatever the bucket and its limit', async () => {
  const limits = fc.record({ perSecond: fc.integer({ min: 1, max: 10_000 }), burst: fc.integer({ min: 1, max: 4 }) })
  let buckets = 0
  await fc.assert(
    fc.asyncProperty(fc.array(limits, { minLength: 1, maxLength: 12 }), async (sequence) => {
      buckets += 1
      const operations = sequence.map((limit) => rateOperation(`${buckets}`, intervalMicros(limit), limit.burst))
      // Some together in one call, and one more apart.
      const answers = [...(await run(...operations.slice(1))), ...(await run(...operations.slice(0, 1)))]
      const limitsInTurn = [...sequence.slice(1), ...sequence.slice(0, 1)]
      let fullAtMicros = 0
      for (const [index, limit] of limitsInTurn.entries()) {
        const [admitted, full = 0, now = 0] = answers[index] ?? []
        const expected = takeToken(limit, fullAtMicros, now)
        expect([admitted, full]).toEqual([expected.admitted ? 1 : 0, expected.fullAtMicros])
        // A refusal keeps nothing.
        if (expected.admitted) fullAtMicros = expected.fullAtMicros
      }
    }),
    { numRuns: 60 },
  )
})

test('a bucket is forgotten when it is full, a place when its time is over', async () => {
  await run(
    rateOperation('short', 30_000_000, 200),
    placeOperation('take', { keyId: 'short', member: 'a' }, 30_000_000, 5),
  )
  const [rateMs, openMs] = await Promise.all([
    connection.send('PTTL', ['tollgate:rate:short']),
    connection.send('PTTL', ['tollgate:open:short']),
  ])
  expect(rateMs).toBeWithin(20_000, 30_001)
  expect(openMs).toBeWithin(20_000, 30_001)
})

test('so many places and no more; what is given back or out of time is free; what is kept is there again', async () => {
  const place = (member: string) => ({ keyId: 'p', member })
  const take = (member: string) => placeOperation('take', place(member), 30_000_000, 2)
  expect(await run(take('a'), take('b'), take('c'))).toEqual([
    [1, 0],
    [1, 1],
    [0, 2],
  ])
  expect(await run(placeOperation('give', place('a')), take('c'), take('d'))).toEqual([
    [1, 0],
    [1, 1],
    [0, 2],
  ])
  expect(await run(placeOperation('keep', place('b'), 30_000_000), take('d'))).toEqual([
    [1, 2],
    [0, 2],
  ])
  // As if the time of one were over.
  await connection.send('ZADD', ['tollgate:open:p', '1', 'b'])
  expect(await run(take('e'), take('f'))).toEqual([
    [1, 1],
    [0, 2],
  ])
})

test('a key that holds a value of another type has no answer; it stays as it is, and others beside it are decided', async () => {
  await connection.send('LPUSH', ['tollgate:rate:foreign', 'x'])
  await connection.send('SET', ['tollgate:rate:text', 'no number'])
  await connection.send('SET', ['tollgate:open:foreign', 'x'])
  const place = { keyId: 'foreign', member: 'a' }
  const answers = await run(
    rateOperation('foreign', 1_000, 2),
    rateOperation('text', 1_000, 2),
    placeOperation('take', place, 30_000_000, 2),
    placeOperation('keep', place, 30_000_000),
    placeOperation('give', place),
    rateOperation('beside', 1_000, 2),
  )
  expect(answers.slice(0, 5)).toEqual([[], [], [], [], []])
  expect(answers[5]?.[0]).toBe(1)
  expect(await connection.send('GET', ['tollgate:open:foreign'])).toBe('x')
})
