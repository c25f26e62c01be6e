import { z } from 'zod'
import type { Attempt, Prepare } from '../../edge/onceForKey.ts'
import type { Handle } from '../../edge/pipeline.ts'
import { validate } from '../../edge/validate.ts'
import type { Database } from '../../io/postgres/database.ts'
import { ok } from '../../kernel/result.ts'
import { type Clock, toTimestamp } from '../../kernel/time.ts'
import { jsonAnswer, keptJson } from '../answer.ts'
import { DELIVERY_STATES, type Delivery, type LoggedAttempt } from '../deliveries/delivery.ts'
import { EVENT_TYPES } from '../event.ts'
import { PAGE_SHAPE, pageOf } from '../page.ts'
import { placeToWire } from '../place.ts'
import { listDeliveries } from './list.ts'
import { redeliver } from './redeliver.ts'
import { sendTest, type TestDependencies } from './sendTest.ts'

const FAILURES = ['timeout', 'unresolved', 'refused_address', 'unreachable', 'broken', 'malformed', 'internal'] as const

const attempt = z
  .object({
    number: z.int().meta({ description: 'From 1, redeliveries included.' }),
    started_at: z.string().meta({ format: 'date-time' }),
    latency_ms: z.int(),
    status: z.int().nullable().meta({ description: 'Of the HTTP answer; null where none came.' }),
    failure: z.enum(FAILURES).nullable().meta({ description: 'Why no answer came; null where one did.' }),
    answer: z.string().nullable().meta({ description: "The first 4 KiB of the answer's body, read as UTF-8." }),
  })
  .meta({ id: 'DeliveryAttempt' })

export const delivery = z
  .object({
    id: z.string().meta({ format: 'uuid' }),
    endpoint_id: z.string().meta({ format: 'uuid' }),
    event_id: z.string().meta({ format: 'uuid' }),
    event_type: z.enum(EVENT_TYPES),
    state: z.enum(DELIVERY_STATES),
    created_at: z.string().meta({ format: 'date-time' }),
    next_attempt_at: z.string().nullable().meta({ format: 'date-time', description: 'Null once it is over.' }),
    attempts: z.array(attempt).meta({ description: 'The last ten, oldest first.' }),
  })
  .meta({ id: 'Delivery' })

export const deliveryPage = z
  .object({
    data: z.array(delivery).meta({ description: 'Newest first.' }),
    next_cursor: z.string().nullable().meta({ description: 'Null on the last page.' }),
  })
  .meta({ id: 'DeliveryPage' })

const uuid = z.uuid({ error: 'must be a UUID' })

export const deliveriesQuery = z.object({
  ...PAGE_SHAPE,
  state: z.enum(DELIVERY_STATES, { error: `must be one of ${DELIVERY_STATES.join(', ')}` }).optional(),
  endpoint_id: uuid.optional(),
  event_id: uuid.optional(),
})

/** The names of the parameters, for the route. */
export const DELIVERIES_PARAMETERS: readonly string[] = Object.keys(deliveriesQuery.shape)

export const testQuery = z.object({
  type: z
    .enum(EVENT_TYPES, { error: 'must be video.completed or video.failed' })
    .optional()
    .meta({ description: 'Of the sample. Unless given: the first type of the endpoint that there is a sample of.' }),
})

/** GET /manage/v1/deliveries. */
export function showDeliveries(database: Database): Handle {
  return async (call) => {
    const query = validate(deliveriesQuery, Object.fromEntries(call.query), 'validation_failed')
    if (!query.ok) return query.refusal
    const page = pageOf('deliveries', query.value)
    if (!page.ok) return page.refusal
    const { state = null, endpoint_id: endpointId = null, event_id: eventId = null } = query.value
    const filter = { organizationId: call.key.organizationId, state, endpointId, eventId }
    const { deliveries, next } = await listDeliveries(database, filter, page.value.after, page.value.limit)
    const body: z.infer<typeof deliveryPage> = {
      data: deliveries.map(toWire),
      next_cursor: next === null ? null : placeToWire('deliveries', next),
    }
    return jsonAnswer(body)
  }
}

/** POST /manage/v1/deliveries/{id}/redeliver. */
export function postRedelivery(dependencies: { readonly database: Database; readonly clock: Clock }): Prepare {
  return (call) =>
    ok(async (kept) => {
      const [id = ''] = call.parameters
      const done = await redeliver(dependencies, call.key.organizationId, id, keepAccepted(kept))
      return done.ok ? jsonAnswer(toWire(done.value), 202) : done.refusal
    })
}

/** POST /manage/v1/webhook-endpoints/{id}/test. */
export function postTest(dependencies: TestDependencies): Prepare {
  return (call) => {
    const query = validate(testQuery, Object.fromEntries(call.query), 'validation_failed')
    if (!query.ok) return query
    return ok(async (kept) => {
      const [endpointId = ''] = call.parameters
      const asked = { organizationId: call.key.organizationId, endpointId, type: query.value.type }
      const done = await sendTest(dependencies, asked, keepAccepted(kept))
      return done.ok ? jsonAnswer(toWire(done.value), 202) : done.refusal
    })
  }
}

/** Keeps the answer in the transaction of the effect. */
function keepAccepted(kept: Attempt | null) {
  return async (made: Delivery) => (kept === null ? [] : await kept.keep(keptJson(toWire(made), 202)))
}

function toWire(made: Delivery): z.infer<typeof delivery> {
  return {
    id: made.id,
    endpoint_id: made.endpointId,
    event_id: made.eventId,
    event_type: made.eventType,
    state: made.state,
    created_at: toTimestamp(made.createdAtMs),
    next_attempt_at: made.dueAtMs === null ? null : toTimestamp(made.dueAtMs),
    attempts: made.attempts.map(attemptToWire),
  }
}

function attemptToWire({ number, startedAtMs, latencyMs, status, failure, answer }: LoggedAttempt) {
  return {
    number,
    started_at: toTimestamp(startedAtMs),
    latency_ms: latencyMs,
    status,
    failure,
    answer: answer === null ? null : Buffer.from(answer).toString('utf8'),
  }
}
