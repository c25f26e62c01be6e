import type { Database, Rider, Transaction } from '../../io/postgres/database.ts'
import { BRAND } from '../../kernel/brand.ts'
import { refusal } from '../../kernel/errors.ts'
import { isUuid, type RandomBytes, uuidV7 } from '../../kernel/ids.ts'
import { ok, type Result, refused } from '../../kernel/result.ts'
import type { Clock } from '../../kernel/time.ts'
import type { Delivery } from '../deliveries/delivery.ts'
import { type Endpoint, NO_ENDPOINT } from '../endpoints/endpoint.ts'
import type { EventType, PublishedEvent } from '../event.ts'
import { findDelivery, insertDelivery } from './store.ts'

export interface TestDependencies {
  readonly database: Database
  readonly clock: Clock
  readonly random: RandomBytes
  /** Finds it, and keeps it from being deleted until the transaction ends. */
  readonly holdEndpoint: (tx: Transaction, organizationId: string, id: string) => Promise<Endpoint | null>
  /** Notes an event without deliveries. */
  readonly noteEvent: (tx: Transaction, event: PublishedEvent) => Promise<void>
}

/** Types of which a sample can be sent; the payload of the others is not laid down. */
const SAMPLES: Partial<Readonly<Record<EventType, object>>> = {
  'video.completed': { status: 'completed' },
  'video.failed': { status: 'failed', error: 'internal_error' },
}

/**
 * Sends one endpoint a sample of an event that it subscribed to: of the given type, or the first of its types that there is
 * a sample of. It is delivered like any other, retries and log included; its video is named `video_test`.
 */
export async function sendTest(
  { database, clock, random, holdEndpoint, noteEvent }: TestDependencies,
  { organizationId, endpointId, type }: { organizationId: string; endpointId: string; type: EventType | undefined },
  keep: (delivery: Delivery) => Promise<readonly Rider[]>,
): Promise<Result<Delivery>> {
  if (!isUuid(endpointId)) return refused(NO_ENDPOINT)
  const done = await database.transaction(async (tx) => {
    const endpoint = await holdEndpoint(tx, organizationId, endpointId)
    if (endpoint === null) return NO_ENDPOINT
    const chosen = endpoint.eventTypes.find((each) => SAMPLES[each] !== undefined && (type ?? each) === each)
    if (chosen === undefined) return NO_SAMPLE
    const createdAtMs = clock.now()
    const video = { id: 'video_test', object: 'video', model: `${BRAND}/test`, ...SAMPLES[chosen] }
    const eventId = uuidV7(createdAtMs, random)
    await noteEvent(tx, { id: eventId, organizationId, type: chosen, createdAtMs, data: { video } })
    const id = uuidV7(createdAtMs, random)
    await insertDelivery(tx, { id, organizationId, endpointId, eventId, createdAtMs })
    const delivery = await findDelivery(tx, organizationId, id)
    if (delivery === null) return NO_ENDPOINT
    for (const ride of await keep(delivery)) await ride(tx)
    return delivery
  })
  return 'code' in done ? refused(done) : ok(done)
}

const NO_SAMPLE = refusal(
  'validation_failed',
  "'type' must be video.completed or video.failed, and one that the endpoint subscribed to.",
  { param: 'type' },
)
