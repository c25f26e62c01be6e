/** Everything at the same time, in an order that a seed decides: nothing is lost, nothing sent twice, nobody waits for another. */

import { afterAll, beforeAll, expect, test } from 'bun:test'
import { openWebhookHouse, type WebhookHouse } from '../../test/webhookHouse.ts'
import { type Receiver, startReceiver } from '../../test/webhookReceiver.ts'
import { MINUTE_MS } from '../kernel/time.ts'
import { removeEndpoint } from './endpoints/remove.ts'
import { redeliver } from './log/redeliver.ts'

const SEEDS = 40

let house: WebhookHouse
let receiver: Receiver
let isUnwell = true
beforeAll(async () => {
  house = await openWebhookHouse()
  // Every third delivery fails at first, so that attempts, redeliveries and deletions meet.
  receiver = await startReceiver((response, _received, index) => {
    response.writeHead(isUnwell && index % 3 === 0 ? 500 : 204).end()
  })
})
afterAll(async () => {
  receiver.stop()
  await house.close()
})

/** Numbers from 0 up to, and without, 1: mulberry32. */
function seeded(seed: number): () => number {
  let state = seed
  return () => {
    state = (state + 0x6d2b79f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
}

test(`seeds: ${SEEDS}`, async () => {
  for (let seed = 1; seed <= SEEDS; seed += 1) await race(seed)
})

async function race(seed: number): Promise<void> {
  const next = seeded(seed)
  isUnwell = true
  const problems: unknown[] = []
  const note = (fields: object, message: string) => void problems.push({ seed, message, ...fields })
  const log = { debug: () => {}, info: () => {}, warn: note, error: note }
  const { database, clock } = house
  const organizationId = await house.organization()
  const endpoints = await Promise.all(
    Array.from({ length: 6 }, (_, index) => house.endpoint(organizationId, `${receiver.url}/${seed}/${index}`)),
  )
  const doomed = endpoints.slice(0, 2)
  const events: string[] = []
  const before = receiver.received.length
  const keep = async () => []
  const worker = () => house.worker({ log, retryMs: Array(20).fill(MINUTE_MS) })
  const steps: (() => Promise<unknown>)[] = []
  for (let count = 0; count < 30; count += 1) steps.push(async () => events.push(await house.publish(organizationId)))
  for (let count = 0; count < 20; count += 1) steps.push(() => worker().run())
  for (const { id } of doomed) {
    const forgetAnswer = async () => {}
    steps.push(() => removeEndpoint({ database, forgetAnswer }, organizationId, id, keep))
  }
  for (let count = 0; count < 10; count += 1) {
    steps.push(async () => {
      const eventId = events[Math.floor(next() * events.length)]
      const [delivery] = eventId === undefined ? [] : (await house.deliveries(eventId)).slice(-1)
      if (delivery === undefined) return
      await redeliver({ database, clock }, organizationId, delivery.id, keep)
    })
  }
  steps.sort(() => next() - 0.5)
  await Promise.all(steps.map((step) => step()))
  // What has failed is tried again.
  isUnwell = false
  for (let round = 0; round < 8; round += 1) {
    await worker().run()
    await clock.turn(2 * MINUTE_MS)
  }
  expect(problems).toEqual([])
  const [left] = await database.query<{ pending: bigint; held: bigint; fresh: bigint }>(
    `select (select count(*) from webhook_deliveries where organization_id = $1::uuid and state = 'pending') as pending,
       (select count(*) from webhook_deliveries where organization_id = $1::uuid and is_new) as fresh,
       (select count(*) from webhook_turns where lease is not null) as held`,
    [organizationId],
  )
  expect({ seed, ...left }).toEqual({ seed, pending: 0n, fresh: 0n, held: 0n })
  // To an endpoint that was there all the time each event came, and as often as its attempts say.
  const attempts = await database.query<{ event_id: string; endpoint: string; attempts: number }>(
    `select d.event_id, right(e.url, 1) as endpoint, d.attempts from webhook_deliveries d
     join webhook_endpoints e on e.id = d.endpoint_id where d.organization_id = $1::uuid`,
    [organizationId],
  )
  expect(attempts.length).toBe(events.length * (endpoints.length - doomed.length))
  const came = receiver.received.slice(before)
  for (const row of attempts) {
    const count = came.filter(
      ({ path, headers }) => headers['svc-event-id'] === row.event_id && path.endsWith(`/${row.endpoint}`),
    ).length
    expect({ seed, ...row, count }).toEqual({ seed, ...row, count: row.attempts })
  }
}
