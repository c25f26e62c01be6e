import { expect, test } from 'bun:test'
import { TurnedClock } from '../../../test/clock.ts'
import type { ScriptAnswer, ScriptOperation } from './script.ts'
import { createSharedPlaces } from './sharedPlaces.ts'

const key = (id: string) => ({ id, organizationId: 'organization' })

/** A store that counts places as the script does, without their ends. */
function open() {
  const clock = new TurnedClock()
  const store = { isAway: false, places: new Map<string, Set<string>>(), asked: [] as string[] }
  const run = ({ key, words }: ScriptOperation): Promise<ScriptAnswer | null> | null => {
    const [kind = '', member = '', , limit] = words
    store.asked.push(kind)
    if (store.isAway) return null
    const places = store.places.get(key) ?? new Set()
    store.places.set(key, places)
    if (kind === 'give') places.delete(member)
    else if (kind === 'keep' || places.size < Number(limit)) places.add(member)
    else return Promise.resolve([0, places.size])
    return Promise.resolve([1, places.size])
  }
  const process = (processName: string) => createSharedPlaces({ run }, 2, { clock, processName })
  const count = () => [...store.places.values()].reduce((sum, { size }) => sum + size, 0)
  return { clock, store, count, first: process('1'), second: process('2') }
}

const REFUSED = { code: 'stream_limit_exceeded', retryAfterSeconds: 1 }

test('processes have so many places between them; one that is given back is free for all', async () => {
  const { first, second } = open()
  const leave = await first.take(key('k'))
  expect(await second.take(key('k'))).toBeFunction()
  expect(await first.take(key('k'))).toMatchObject(REFUSED)
  expect(await second.take(key('k'))).toMatchObject(REFUSED)
  expect(await second.take(key('another'))).toBeFunction()
  if (typeof leave === 'function') leave()
  expect(await second.take(key('k'))).toBeFunction()
  expect(await first.take(key('k'))).toMatchObject(REFUSED)
})

test('a key with all places taken in one process is refused without the store being asked', async () => {
  const { first, store } = open()
  await first.take(key('k'))
  await first.take(key('k'))
  expect(first.take(key('k'))).toMatchObject(REFUSED)
  expect(store.asked).toEqual(['take', 'take'])
})

test("while the store is away, the process's own places count, at once; back, it learns of all of them", async () => {
  const { first, second, store, count } = open()
  store.isAway = true
  const leave = first.take(key('k'))
  expect(leave).toBeFunction()
  expect(second.take(key('k'))).toBeFunction()
  expect(second.take(key('k'))).toBeFunction()
  expect(second.take(key('k'))).toMatchObject(REFUSED)
  store.isAway = false
  first.renew()
  second.renew()
  expect(count()).toBe(3)
  if (typeof leave === 'function') leave()
  expect(await first.take(key('k'))).toMatchObject(REFUSED)
})

test('places that stay taken are kept, before the store forgets them; closed, nothing runs on', async () => {
  const { clock, first, second, store, count } = open()
  await first.take(key('k'))
  await second.take(key('k'))
  store.places.clear()
  await clock.turn(10_000)
  expect(count()).toBe(2)
  first.close()
  second.close()
  expect(clock.pending).toBe(0)
})
