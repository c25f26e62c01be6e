import type { Participant, Transaction } from '../../infra/postgres/database.ts'
import { joinAll } from '../../infra/postgres/joinAll.ts'
import { BRAND } from '../../lib/brand.ts'
import { refusal } from '../../lib/errors.ts'
import { isUuid, type RandomBytes, uuidV7 } from '../../lib/ids.ts'
import { ok, type Result, refused } from '../../lib/result.ts'
import type { Delivery } from '../deliveries/delivery.ts'
import { NO_ENDPOINT, type WebhookEndpoint } from '../endpoints/endpoint.ts'
import type { EventType, PublishedEvent } from '../events/event.ts'
import { refuseToSend, type SendDependencies, takeSend } from './refuseToSend.ts'
import { dropOldTests, findDelivery, findTypes, insertTest } from './store.ts'

export interface TestDependencies extends SendDependencies {
  readonly random: RandomBytes
  /** Finds it, and keeps it from being deleted until the transaction ends. */
  readonly holdEndpoint: (tx: Transaction, organizationId: string, id: string) => Promise<WebhookEndpoint | null>
  /** Notes an event without deliveries. */
  readonly noteEvent: (tx: Transaction, event: PublishedEvent) => Promise<void>
}

const VIDEO = { id: 'video_test', object: 'video', model: `${BRAND}/test` }
const INSTANCE = { id: 'instance_test', object: 'instance', name: 'test', gpu_type: 'test' }

/** The `data` of the sample of each type. */
const SAMPLES: Readonly<Record<EventType, object>> = {
  'instance.creating': { instance: { ...INSTANCE, state: 'creating', reason: null } },
  'instance.running': { instance: { ...INSTANCE, state: 'running', reason: null } },
  'instance.terminated': { instance: { ...INSTANCE, state: 'terminated', reason: 'deleted' } },
  'instance.failed': { instance: { ...INSTANCE, state: 'failed', reason: 'create_refused' } },
  'video.completed': { video: { ...VIDEO, status: 'completed' } },
  'video.failed': { video: { ...VIDEO, status: 'failed', error: 'internal_error' } },
}

/**
 * Sends one endpoint a sample of an event that it subscribed to: of the given type, or the first of its types. It is delivered like any
 * other, retries and log included; its video is named `video_test`, its instance `instance_test`. Refuses an unknown endpoint, and one
 * without such a type; then by the limits of the organization, and where nobody pays.
 */
export async function sendTest(
  dependencies: TestDependencies,
  { organizationId, endpointId, type }: { organizationId: string; endpointId: string; type: EventType | undefined },
  keep: (delivery: Delivery) => Promise<readonly Participant[]>,
): Promise<Result<Delivery>> {
  const { database, clock, random, holdEndpoint, noteEvent } = dependencies
  const types = isUuid(endpointId) ? await findTypes(database, organizationId, endpointId) : null
  if (types === null) return refused(NO_ENDPOINT)
  const chosen = types.find((each) => (type ?? each) === each)
  if (chosen === undefined) return refused(OTHER_TYPE)
  const refusing = await refuseToSend(dependencies, organizationId, true)
  if (refusing !== null) return refused(refusing)
  const done = await database.transaction(async (tx) => {
    if ((await holdEndpoint(tx, organizationId, endpointId)) === null) return NO_ENDPOINT
    const tooMany = await takeSend(tx, dependencies, organizationId)
    if (tooMany !== null) return tooMany
    const createdAtMs = clock.now()
    const eventId = uuidV7(createdAtMs, random)
    await noteEvent(tx, { id: eventId, organizationId, type: chosen, createdAtMs, data: SAMPLES[chosen] })
    const id = uuidV7(createdAtMs, random)
    await insertTest(tx, { id, organizationId, endpointId, eventId, createdAtMs })
    await dropOldTests(tx, organizationId)
    const delivery = await findDelivery(tx, organizationId, id)
    if (delivery === null) return NO_ENDPOINT
    await joinAll(tx, await keep(delivery))
    return delivery
  }, organizationId)
  return 'code' in done ? refused(done) : ok(done)
}

const OTHER_TYPE = refusal('validation_failed', "'type' must be a type of event that the endpoint is subscribed to.", {
  param: 'type',
})
