/** Endpoints, events and deliverers over a database of their own, with a clock that the test turns. */

import { createHttp } from '../src/infra/httpClient/client.ts'
import type { Database } from '../src/infra/postgres/database.ts'
import { systemRandom } from '../src/infra/random.ts'
import type { DataKeys } from '../src/lib/dataKeys.ts'
import { uuidV7 } from '../src/lib/ids.ts'
import { parseNetworks } from '../src/lib/networks.ts'
import type { Secret } from '../src/lib/secret.ts'
import { createDeliverer, type DeliverDependencies, type Deliverer } from '../src/webhooks/deliveries/deliver.ts'
import { createEndpoint } from '../src/webhooks/endpoints/create.ts'
import type { EventType } from '../src/webhooks/events/event.ts'
import { publishEvent } from '../src/webhooks/publish.ts'
import { TurnedClock } from './clock.ts'
import { makeCustomer } from './customer.ts'
import { oneDataKey } from './oneDataKey.ts'
import { freshDatabase } from './postgres.ts'
import { SILENCE } from './silence.ts'

const random = systemRandom()

export interface WebhookHouse {
  readonly database: Database
  readonly databaseUrl: string
  readonly clock: TurnedClock
  /** The data keys of its deliverers. */
  readonly dataKeys: DataKeys
  /** Returns another deliverer, as another process has it; call its `run`. */
  deliverer(more?: Partial<DeliverDependencies>): Deliverer
  organization(): Promise<string>
  endpoint(organizationId: string, url: string, types?: readonly EventType[]): Promise<{ id: string; secret: Secret }>
  /** `pendingMost`: deliveries that may be pending; 10,000 where it is left out. */
  publish(organizationId: string, type?: EventType, pendingMost?: number): Promise<string>
  /** Of each delivery of an event, oldest endpoint first. */
  deliveries(eventId: string): Promise<DeliveryState[]>
  close(): Promise<void>
}

export interface DeliveryState {
  readonly id: string
  readonly state: string
  readonly attempts: number
  /** Milliseconds from the clock's now; null once it is over. */
  readonly dueInMs: number | null
  /** Status or failure of each attempt. */
  readonly log: readonly (number | string)[]
}

export async function openWebhookHouse(): Promise<WebhookHouse> {
  const { database, url: databaseUrl, drop } = await freshDatabase()
  const clock = new TurnedClock(Date.now())
  const dataKeys = oneDataKey(random(32))
  return {
    database,
    databaseUrl,
    clock,
    dataKeys,
    deliverer: (more = {}) =>
      createDeliverer({
        database,
        clock,
        log: SILENCE,
        random,
        dataKeys,
        http: createHttp(clock, { idleMs: 0 }),
        resolve: () => Promise.reject(new Error('no name is looked up in this test')),
        allowed: parseNetworks(['127.0.0.0/8']),
        retryMs: [30_000, 300_000, 1_800_000, 7_200_000],
        onAttempt: () => {},
        onSettled: () => {},
        ...more,
      }),
    organization: async () => (await makeCustomer(database)).organizationId,
    async endpoint(organizationId, url, eventTypes = ['video.completed']) {
      const attempt = uuidV7(clock.now(), random)
      const made = await createEndpoint(
        { database, clock, random, dataKeys },
        { organizationId, url, eventTypes, attempt, keep: async () => [] },
      )
      if (!made.ok) throw new Error(made.refusal.message)
      return { id: made.value.endpoint.id, secret: made.value.secret }
    },
    async publish(organizationId, type = 'video.completed', pendingMost = 10_000) {
      const createdAtMs = clock.now()
      const id = uuidV7(createdAtMs, random)
      const data = { video: { id: 'video_1', object: 'video', model: 'svc/clip', status: 'completed' } }
      await database.transaction((tx) => publishEvent(tx, { id, organizationId, type, createdAtMs, data }, pendingMost))
      return id
    },
    async deliveries(eventId) {
      const rows = await database.query<{
        id: string
        state: string
        attempts: number
        due_at: Date | null
        log: (number | string)[] | null
      }>(
        `select d.id, d.state, d.attempts, d.due_at, (
           select jsonb_agg(coalesce(to_jsonb(a.status), to_jsonb(a.failure)) order by a.number)
           from webhook_attempts a where a.delivery_id = d.id) as log
         from webhook_deliveries d where d.event_id = $1::uuid order by d.endpoint_id`,
        [eventId],
      )
      return rows.map(({ id, state, attempts, due_at, log }) => ({
        id,
        state,
        attempts,
        dueInMs: due_at === null ? null : due_at.getTime() - clock.now(),
        log: log ?? [],
      }))
    },
    close: drop,
  }
}
