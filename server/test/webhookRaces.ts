/**
 * Seeded races on webhooks: events, runners, redeliveries, deletions and pauses at the same time, over a real database. Each event
 * comes to each endpoint that stays, as often as its attempts say; no turn is left taken, no delivery forgotten.
 *
 * Nearly all of a race's time is PostgreSQL's, for some hundred statements. So a race is small, and a seed chooses how many take
 * part: many small races meet more orders of events than few large ones. The receiver is a function, and not a server, so that
 * the seed decides when each answer comes.
 */

import { expect } from 'bun:test'
import type { Http, HttpAnswer } from '../src/infra/httpClient.ts'
import { MINUTE_MS, SECOND_MS } from '../src/lib/time.ts'
import { removeEndpoint } from '../src/webhooks/endpoints/remove.ts'
import { redeliver } from '../src/webhooks/log/redeliver.ts'
import { type Seeded, seeded } from './faults/seeded.ts'
import type { WebhookHouse } from './webhookHouse.ts'

/** More rounds than any run needs: each takes at least two deliveries, and a failure is due a minute later. */
const ROUNDS_MOST = 20

/** Longer than a runner may hold a turn: who has one then is taken for dead, and goes on all the same. */
const PAUSE_MS = 40 * SECOND_MS

/** A receiver that keeps the requests that came, as `event path`. */
class RacingReceiver {
  readonly received: string[] = []
  isWell = false
  readonly http: Http
  private readonly random: Seeded

  constructor(random: Seeded) {
    this.random = random
    const none = () => Promise.reject(new Error('only POST is sent'))
    this.http = { post: (url, { headers }) => this.take(url, headers['webhook-id'] ?? ''), send: none, close() {} }
  }

  /** Answers after some turns of the event loop; every third time it fails, so that attempts, redeliveries and deletions meet. */
  private async take(url: string, eventId: string): Promise<HttpAnswer> {
    for (let turns = this.random.between(0, 6); turns > 0; turns -= 1) await new Promise((done) => setImmediate(done))
    this.received.push(`${eventId} ${new URL(url).pathname}`)
    const status = !this.isWell && this.random.percent(33) ? 500 : 204
    return { status, header: () => null, read: async () => null, release() {}, cancel() {} }
  }
}

/** Runs one race in an organization of its own. Throws where something is lost, sent too often or left behind. */
export async function raceWebhooks(house: WebhookHouse, seed: number): Promise<void> {
  const random = seeded(seed)
  const receiver = new RacingReceiver(random)
  const problems: unknown[] = []
  const note = (fields: object, message: string) => void problems.push({ message, ...fields })
  const log = { debug: () => {}, info: () => {}, warn: note, error: note }
  const organizationId = await house.organization()
  const endpoints = await Promise.all(
    times(random.between(2, 5), async (index) => {
      const path = `/${index}`
      return { ...(await house.endpoint(organizationId, `http://127.0.0.1${path}`)), path }
    }),
  )
  const doomed = endpoints.slice(0, random.between(0, 2))
  const staying = endpoints.slice(doomed.length)
  const events: string[] = []
  const deliverer = () => house.deliverer({ log, http: receiver.http, retryMs: Array(20).fill(MINUTE_MS) })
  const pauses = random.pick([0, 0, 1, 2])
  const steps = shuffled(random, [
    ...Array(pauses).fill(() => house.clock.turn(PAUSE_MS)),
    ...Array(random.between(1, 20)).fill(async () => void events.push(await house.publish(organizationId))),
    ...Array(random.between(2, 10)).fill(() => deliverer().run()),
    ...Array(random.between(0, 6)).fill(() => redeliverAny(house, organizationId, random, events)),
    ...doomed.map(
      ({ id }) =>
        () =>
          remove(house, organizationId, id),
    ),
  ])
  await Promise.all(steps.map((step) => step()))

  receiver.isWell = true
  let left = await leftOf(house, organizationId)
  for (let round = 0; round < ROUNDS_MOST && left !== NOTHING_LEFT; round += 1) {
    await deliverer().run()
    await house.clock.turn(2 * MINUTE_MS)
    left = await leftOf(house, organizationId)
  }
  expect(left).toBe(NOTHING_LEFT)
  expect(problems).toEqual([])
  await expectEachCame(house, receiver, events, staying, pauses > 0)
}

async function remove({ database }: WebhookHouse, organizationId: string, id: string): Promise<void> {
  await removeEndpoint({ database, forgetAnswer: async () => {} }, organizationId, id, async () => [])
}

/** Races are of those who may ask. */
const NO_LIMITS = { testsPerMinute: 1_000_000, pendingMost: 1_000_000 }

async function redeliverAny(house: WebhookHouse, organizationId: string, random: Seeded, events: readonly string[]) {
  const eventId = events[random.between(0, Math.max(0, events.length - 1))]
  const [delivery] = eventId === undefined ? [] : (await house.deliveries(eventId)).slice(-1)
  if (delivery === undefined) return
  const { database, clock } = house
  const asked = { database, clock, limits: NO_LIMITS, refuseUnfunded: async () => null }
  await redeliver(asked, organizationId, delivery.id, async () => [])
}

const NOTHING_LEFT = '0 pending, 0 new, 0 turns taken'

async function leftOf({ database }: WebhookHouse, organizationId: string): Promise<string> {
  const [left] = await database.query<{ pending: bigint; fresh: bigint; taken: bigint }>(
    `select count(*) filter (where d.state = 'pending') as pending, count(*) filter (where d.is_new) as fresh,
       (select count(*) from webhook_turns where lease is not null) as taken
     from webhook_deliveries d where d.organization_id = $1::uuid`,
    [organizationId],
  )
  return `${left?.pending} pending, ${left?.fresh} new, ${left?.taken} turns taken`
}

/**
 * To an endpoint that was there all the time each event came, and as often as its attempts say. A request of a runner
 * that was taken for dead counts as no attempt: it may have come more often.
 */
async function expectEachCame(
  { database }: WebhookHouse,
  { received }: RacingReceiver,
  events: readonly string[],
  staying: readonly { readonly id: string; readonly path: string }[],
  mayComeAgain: boolean,
): Promise<void> {
  const came = new Map<string, number>()
  for (const each of received) came.set(each, (came.get(each) ?? 0) + 1)
  const paths = new Map(staying.map(({ id, path }) => [id, path]))
  const rows = await database.query<{ event_id: string; endpoint_id: string; attempts: number }>(
    'select event_id, endpoint_id, attempts from webhook_deliveries where endpoint_id = any ($1::text::uuid[])',
    [`{${staying.map(({ id }) => id).join(',')}}`],
  )
  expect(rows.length).toBe(events.length * staying.length)
  for (const { event_id: eventId, endpoint_id: endpointId, attempts } of rows) {
    const key = `${eventId} ${paths.get(endpointId)}`
    const count = came.get(key) ?? 0
    const isGood = attempts > 0 && (mayComeAgain ? count >= attempts : count === attempts)
    if (!isGood) throw new Error(`${key} came ${count} times in ${attempts} attempts`)
  }
}

type Step = () => Promise<unknown>

const times = <T>(count: number, make: (index: number) => T): T[] =>
  Array.from({ length: count }, (_, index) => make(index))

/** In an order that the seed decides: Fisher and Yates. */
function shuffled(random: Seeded, steps: Step[]): Step[] {
  for (let last = steps.length - 1; last > 0; last -= 1) {
    const other = random.between(0, last)
    const [one, two] = [steps[last], steps[other]]
    if (one === undefined || two === undefined) continue
    steps[last] = two
    steps[other] = one
  }
  return steps
}
