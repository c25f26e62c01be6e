/** Streams of events: none is missed, whoever wrote it and however late it committed; none is anybody else's. */

import { afterAll, beforeAll, expect, test } from 'bun:test'
import { openTransaction } from '../../../test/openTransaction.ts'
import { freshDatabase } from '../../../test/postgres.ts'
import { SILENCE } from '../../../test/silence.ts'
import { openWebhookHouse, type WebhookHouse } from '../../../test/webhookHouse.ts'
import { publishEvent } from '../publish.ts'
import { createFollower, type Follower } from './follow.ts'
import type { FollowedEvent } from './store.ts'

let house: WebhookHouse
beforeAll(async () => {
  house = await openWebhookHouse()
})
afterAll(() => house.close())

let isStopping = false
const follower = (): Follower => {
  const { database, clock } = house
  return createFollower({ database, clock, log: SILENCE, isStopping: () => isStopping })
}

let isAllowed = true
const isStillAllowed = async () => isAllowed
const reader = (gone = new AbortController()) => ({ gone: gone.signal, isStillAllowed })

async function open(organizationId: string, lastEventId: string | null = null, by = follower()) {
  const gone = new AbortController()
  const followed = await by.follow(organizationId, lastEventId, reader(gone))
  if (!followed.ok) throw new Error(followed.refusal.message)
  const { events: stream, start } = followed.value
  return {
    gone,
    stream,
    start,
    /** The ids of the next events, the clock turned as often as it takes. */
    async next(count: number): Promise<string[]> {
      const ids: string[] = []
      while (ids.length < count) {
        const step = stream.next()
        let isHere = false
        void step.finally(() => {
          isHere = true
        })
        while (!isHere) await house.clock.turn(1_000)
        const { value } = (await step) as { value: FollowedEvent }
        ids.push(value.id)
      }
      return ids
    },
  }
}

test('a stream begins now, and goes on behind the event that a client names', async () => {
  const organizationId = await house.organization()
  const before = await house.publish(organizationId)
  const first = await open(organizationId)
  const events = [await house.publish(organizationId), await house.publish(organizationId, 'video.failed')]
  expect(await first.next(2)).toEqual(events)
  events.push(await house.publish(organizationId))
  expect(await first.next(1)).toEqual(events.slice(2))
  const again = await open(organizationId, before)
  expect(await again.next(3)).toEqual(events)
})

test("another organization's events are not in it, nor a place to begin from", async () => {
  const [organizationId, other] = [await house.organization(), await house.organization()]
  const stream = await open(organizationId)
  const foreign = await house.publish(other)
  const own = await house.publish(organizationId)
  expect(await stream.next(1)).toEqual([own])
  for (const unknown of [
    foreign,
    crypto.randomUUID(),
    'nonsense',
    '',
    'start-',
    'start-x',
    'start-1:2',
    'start-5:3:',
    'start-0:1:',
    'start-3:5:4,4',
    'start-3:5:2',
    'start-3:5:5',
    'start-3:5:03',
    // Of the future: nothing would be sent until this database comes to it.
    'start-1:999999999999999999:',
  ]) {
    const followed = await follower().follow(organizationId, unknown, reader())
    expect(followed).toMatchObject({ ok: false, refusal: { code: 'validation_failed' } })
  }
})

test('a client that comes back before it has seen an event misses none', async () => {
  const organizationId = await house.organization()
  await house.publish(organizationId)
  const { start } = await open(organizationId)
  const missed = await house.publish(organizationId)
  const again = await open(organizationId, start)
  expect(again.start).toBe(start)
  expect(await again.next(1)).toEqual([missed])
  const other = await open(await house.organization(), start)
  other.gone.abort()
  expect(await other.stream.next()).toMatchObject({ done: true })
})

test('an event that had committed when a stream began is not in it, though a transaction from before is open', async () => {
  const organizationId = await house.organization()
  const slow = await openTransaction(house.database, (tx) => tx.query('select pg_current_xact_id()'))
  await house.publish(organizationId)
  const { next } = await open(organizationId)
  const after = await house.publish(organizationId)
  await slow.commit()
  expect(await next(1)).toEqual([after])
})

test('an event whose transaction began first and commits last is not missed', async () => {
  const organizationId = await house.organization()
  const stream = await open(organizationId)
  const early = crypto.randomUUID()
  const event = { organizationId, type: 'video.completed', createdAtMs: house.clock.now(), data: {} } as const
  const slow = await openTransaction(house.database, (tx) => publishEvent(tx, { ...event, id: early }, 10_000))
  const late = await house.publish(organizationId)
  const reading = stream.next(2)
  await slow.commit()
  expect(await reading).toEqual([early, late])
})

test('a transaction of another database, however long it is open, keeps no event back', async () => {
  const elsewhere = await freshDatabase()
  const organizationId = await house.organization()
  const { next } = await open(organizationId)
  const long = await openTransaction(elsewhere.database, (tx) => tx.query('select pg_current_xact_id()'))
  const event = await house.publish(organizationId)
  expect(await next(1)).toEqual([event])
  await long.commit()
  await elsewhere.drop()
})

test('the numbers of transactions are numbers: 9 comes before 10', async () => {
  const organizationId = await house.organization()
  const events = [await house.publish(organizationId), await house.publish(organizationId)]
  for (const [index, number] of ['9', '10'].entries()) {
    await house.database.query('update webhook_events set written_by = $2::text::xid8 where id = $1::uuid', [
      events[index] ?? '',
      number,
    ])
  }
  const { next } = await open(organizationId, 'start-1:1:')
  const late = await house.publish(organizationId)
  expect(await next(3)).toEqual([...events, late])
})

test('ten streams of an organization may be open at once, and each gives its place back', async () => {
  const by = follower()
  const organizationId = await house.organization()
  const opened = []
  for (let count = 0; count < 10; count += 1) opened.push(await open(organizationId, null, by))
  const refused = await by.follow(organizationId, null, reader())
  expect(refused).toMatchObject({ ok: false, refusal: { code: 'rate_limited' } })
  const [first] = opened
  await house.publish(organizationId)
  await first?.next(1)
  await first?.stream.return()
  expect((await by.follow(organizationId, null, reader())).ok).toBe(true)
})

test('a stream ends when its client is gone, when its key is good no more, and when the server stops', async () => {
  const organizationId = await house.organization()
  const left = await open(organizationId)
  left.gone.abort()
  expect(await left.stream.next()).toMatchObject({ done: true })
  const revoked = await open(organizationId)
  await house.publish(organizationId)
  isAllowed = false
  expect(await revoked.stream.next()).toMatchObject({ done: true })
  isAllowed = true
  const stopped = await open(organizationId)
  isStopping = true
  expect(await stopped.stream.next()).toMatchObject({ done: true })
  isStopping = false
})
