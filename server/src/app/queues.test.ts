import { expect, test } from 'bun:test'
import { TurnedClock } from '../../test/clock.ts'
import { SILENCE } from '../../test/silence.ts'
import type { Database } from '../infra/postgres/database.ts'
import { SECOND_MS } from '../lib/time.ts'
import { readQueues } from './queues.ts'

const over = (query: () => Promise<never>) => ({ query }) as unknown as Database

test('a database that is away leaves the queues out', async () => {
  const database = over(() => Promise.reject(new Error('away')))
  const clock = new TurnedClock()
  const read = readQueues({ database, clock, log: SILENCE })
  expect(await read()).toBeNull()
  expect(await read()).toBeNull()
  expect(clock.pending).toBe(0)
})

test('a database that does not answer is waited for two seconds, and asked once', async () => {
  let asked = 0
  const database = over(() => {
    asked += 1
    return new Promise(() => {})
  })
  const clock = new TurnedClock()
  const read = readQueues({ database, clock, log: SILENCE })
  const pages = [read(), read()]
  await clock.turn(2 * SECOND_MS)
  pages.push(read())
  await clock.turn(2 * SECOND_MS)
  expect(await Promise.all(pages)).toEqual([null, null, null])
  expect(asked).toBe(1)
})
