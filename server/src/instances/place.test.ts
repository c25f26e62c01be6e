/** One place has the machines of a driver that others do not find. */

import { afterAll, beforeAll, expect, test } from 'bun:test'
import { TurnedClock } from '../../test/clock.ts'
import { scriptMachines } from '../../test/instanceProcess.ts'
import { type FreshDatabase, freshDatabase } from '../../test/postgres.ts'
import { MINUTE_MS } from '../lib/time.ts'
import { claimOwnPlace } from './place.ts'

const clock = new TurnedClock()
let fresh: FreshDatabase
beforeAll(async () => {
  fresh = await freshDatabase()
})
afterAll(() => fresh.drop())

const claim = (place?: string) => {
  const driver = { ...scriptMachines(), ...(place !== undefined && { place }) }
  return claimOwnPlace({ database: fresh.database, clock, driver })
}

test('a second place is refused until the first was away for ten minutes', async () => {
  await claim('one')
  await claim('one')
  await expect(claim('two')).rejects.toThrow('has its machines on another host')
  await clock.turn(9 * MINUTE_MS)
  await claim('one')
  await clock.turn(10 * MINUTE_MS)
  await expect(claim('two')).rejects.toThrow()
  await clock.turn(1)
  await claim('two')
  await expect(claim('one')).rejects.toThrow()
})

test('of many places at once, one is taken', async () => {
  await clock.turn(11 * MINUTE_MS)
  const claims = await Promise.allSettled(['a', 'b', 'c', 'd'].map((place) => claim(place)))
  expect(claims.filter(({ status }) => status === 'fulfilled')).toHaveLength(1)
})

test('a driver whose machines are found from everywhere claims none', async () => {
  await claim()
})
