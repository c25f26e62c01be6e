import { z } from 'zod'
import type { Attempt } from '../../http/idempotency/attempts.ts'
import { jsonAnswer, keptJson } from '../../http/jsonAnswer.ts'
import type { Prepare } from '../../http/onceForKey.ts'
import type { Handle } from '../../http/pipeline.ts'
import type { KeyOrSession } from '../../http/principal.ts'
import { validate } from '../../http/validate.ts'
import type { Queryable } from '../../infra/postgres/database.ts'
import { isUuid } from '../../lib/ids.ts'
import { cursorPage, LIST_SHAPE, listPage } from '../../lib/listPage.ts'
import { ok } from '../../lib/result.ts'
import { toTimestamp } from '../../lib/time.ts'
import {
  type AnsweredDelivery,
  DEAD_REASONS,
  DELIVERY_STATES,
  type Delivery,
  type LoggedAttempt,
} from '../deliveries/delivery.ts'
import { EVENT_TYPES } from '../events/event.ts'
import { pageOf } from '../pages/page.ts'
import { placeToWire } from '../pages/place.ts'
import { NO_DELIVERY, redeliver } from './redeliver.ts'
import type { SendDependencies } from './refuseToSend.ts'
import { sendTest, type TestDependencies } from './sendTest.ts'
import { findAnsweredDelivery, listDeliveriesAfter } from './store.ts'

/** Deliveries that one page looks at: some 20 ms of the database. */
const LOOKED_AT_MOST = 10_000

const FAILURES = ['timeout', 'unresolved', 'unreachable', 'broken', 'malformed', 'internal'] as const

const attemptShape = {
  number: z.int().meta({ description: 'Counts from 1, redeliveries included.' }),
  started_at: z.string().meta({ format: 'date-time' }),
  latency_ms: z.int().meta({ description: '0 when `failure` is `unresolved`.' }),
  status: z.int().nullable().meta({ description: 'The status of the HTTP answer; null if none came.' }),
  failure: z.enum(FAILURES).nullable().meta({
    description:
      'The reason why no answer came; null if one came. `unresolved`: no address is known for the host, or one that webhooks may not reach.',
  }),
}
const attempt = z.object(attemptShape).meta({ id: 'DeliveryAttempt' })
const answeredAttempt = z
  .object({
    ...attemptShape,
    answer: z.string().nullable().meta({ description: "The first 4 KiB of the answer's body, read as UTF-8." }),
  })
  .meta({ id: 'AnsweredDeliveryAttempt' })

const deliveryShape = {
  id: z.string().meta({ format: 'uuid' }),
  endpoint_id: z.string().meta({ format: 'uuid' }),
  event_id: z.string().meta({ format: 'uuid' }),
  event_type: z.enum(EVENT_TYPES),
  state: z.enum(DELIVERY_STATES),
  reason: z
    .enum(DEAD_REASONS)
    .nullable()
    .meta({ description: '`too_many_pending`: it is dead and was never tried, since too many others were pending.' }),
  created_at: z.string().meta({ format: 'date-time' }),
  next_attempt_at: z.string().nullable().meta({ format: 'date-time', description: 'Null once it has ended.' }),
}
const LAST_TEN = 'The last ten, oldest first.'

export const delivery = z
  .object({ ...deliveryShape, attempts: z.array(attempt).meta({ description: LAST_TEN }) })
  .meta({ id: 'Delivery' })

export const answeredDelivery = z
  .object({ ...deliveryShape, attempts: z.array(answeredAttempt).meta({ description: LAST_TEN }) })
  .meta({ id: 'AnsweredDelivery' })

export const deliveryPage = cursorPage(
  delivery,
  'Newest first. With `state` or `endpoint_id`, a page may have fewer deliveries than `limit`, or none, and go on all the same.',
  'DeliveryPage',
)

const uuid = z.uuid({ error: 'must be a UUID' })

export const deliveriesQuery = z.object({
  ...LIST_SHAPE,
  state: z.enum(DELIVERY_STATES, { error: `must be one of ${DELIVERY_STATES.join(', ')}` }).optional(),
  endpoint_id: uuid.optional(),
  event_id: uuid.optional(),
})

/** The names of the parameters, for the route. */
export const DELIVERIES_PARAMETERS: readonly string[] = Object.keys(deliveriesQuery.shape)

export const testQuery = z.object({
  type: z
    .enum(EVENT_TYPES, { error: `must be one of ${EVENT_TYPES.join(', ')}` })
    .optional()
    .meta({ description: "The type of the sample. Default: the endpoint's first type." }),
})

/** GET /manage/v1/deliveries. */
export function showDeliveries(database: Queryable): Handle<KeyOrSession> {
  return async (call) => {
    const query = validate(deliveriesQuery, Object.fromEntries(call.query), 'validation_failed')
    if (!query.ok) return query.refusal
    const page = pageOf('deliveries', query.value)
    if (!page.ok) return page.refusal
    const { state = null, endpoint_id: endpointId = null, event_id: eventId = null } = query.value
    const filter = { organizationId: call.principal.organizationId, state, endpointId, eventId }
    const { after, limit } = page.value
    const found = await listDeliveriesAfter(database, filter, after, limit + 1, LOOKED_AT_MOST)
    const { data, last } = listPage(found.deliveries, limit, toWire)
    const end = last ?? found.stoppedAt
    const body: z.infer<typeof deliveryPage> = {
      data: [...data],
      next_cursor: end === null ? null : placeToWire('deliveries', end),
    }
    return jsonAnswer(body)
  }
}

/** GET /manage/v1/deliveries/{id}. */
export function showDelivery(database: Queryable): Handle<KeyOrSession> {
  return async (call) => {
    const [id = ''] = call.parameters
    const found = isUuid(id) ? await findAnsweredDelivery(database, call.principal.organizationId, id) : null
    return found === null ? NO_DELIVERY : jsonAnswer(answeredToWire(found))
  }
}

/** POST /manage/v1/deliveries/{id}/redeliver. */
export function postRedelivery(dependencies: SendDependencies): Prepare<KeyOrSession> {
  return (call) =>
    ok(async (kept) => {
      const [id = ''] = call.parameters
      const done = await redeliver(dependencies, call.principal.organizationId, id, keepAccepted(kept))
      return done.ok ? jsonAnswer(toWire(done.value), 202) : done.refusal
    })
}

/** POST /manage/v1/webhook-endpoints/{id}/test. */
export function postTest(dependencies: TestDependencies): Prepare<KeyOrSession> {
  return (call) => {
    const query = validate(testQuery, Object.fromEntries(call.query), 'validation_failed')
    if (!query.ok) return query
    return ok(async (kept) => {
      const [endpointId = ''] = call.parameters
      const asked = { organizationId: call.principal.organizationId, endpointId, type: query.value.type }
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
    reason: made.reason,
    created_at: toTimestamp(made.createdAtMs),
    next_attempt_at: made.dueAtMs === null ? null : toTimestamp(made.dueAtMs),
    attempts: made.attempts.map(attemptToWire),
  }
}

function answeredToWire(found: AnsweredDelivery): z.infer<typeof answeredDelivery> {
  const attempts = found.attempts.map((each) => ({
    ...attemptToWire(each),
    answer: each.answer === null ? null : Buffer.from(each.answer).toString('utf8'),
  }))
  return { ...toWire(found), attempts }
}

/**
 * A name that leads to a private address looks like one that leads nowhere, and how long that took is not told either:
 * customers could ask for the names of the operator's network, one by one.
 */
function attemptToWire({ number, startedAtMs, latencyMs, status, failure }: LoggedAttempt): z.infer<typeof attempt> {
  const isUnresolved = failure === 'unresolved' || failure === 'refused_address'
  return {
    number,
    started_at: toTimestamp(startedAtMs),
    latency_ms: isUnresolved ? 0 : latencyMs,
    status,
    failure: isUnresolved ? 'unresolved' : failure,
  }
}
