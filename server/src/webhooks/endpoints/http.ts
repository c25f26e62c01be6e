import { z } from 'zod'
import type { Prepare } from '../../edge/onceForKey.ts'
import type { Handle } from '../../edge/pipeline.ts'
import { type ExplainIssue, validate } from '../../edge/validate.ts'
import type { Queryable } from '../../io/postgres/database.ts'
import { refusal } from '../../kernel/errors.ts'
import type { Networks } from '../../kernel/networks.ts'
import { ok, refused } from '../../kernel/result.ts'
import type { Secret } from '../../kernel/secret.ts'
import { toTimestamp } from '../../kernel/time.ts'
import { jsonAnswer, keptJson } from '../answer.ts'
import { EVENT_TYPES } from '../event.ts'
import { vetUrl } from '../guard.ts'
import { PAGE_SHAPE, pageOf } from '../page.ts'
import { placeToWire } from '../place.ts'
import { type CreateDependencies, createEndpoint } from './create.ts'
import type { Endpoint } from './endpoint.ts'
import { listEndpoints } from './list.ts'
import { type RemoveDependencies, removeEndpoint } from './remove.ts'

const eventTypes = z
  .array(z.enum(EVENT_TYPES, { error: `must be one of ${EVENT_TYPES.join(', ')}` }))
  .min(1, { error: 'must name at least one event type' })
  .max(EVENT_TYPES.length, { error: 'must name each event type once' })

export const webhookEndpointRequest = z
  .strictObject({
    url: z.string().meta({ description: 'HTTPS, on the public internet, at most 2048 characters.', format: 'uri' }),
    event_types: eventTypes
      .refine((types) => new Set(types).size === types.length, { error: 'must name each event type once' })
      .meta({ description: 'The list is explicit: types that are added later are never sent.' }),
  })
  .meta({ id: 'WebhookEndpointRequest' })

const shape = {
  id: z.string().meta({ format: 'uuid' }),
  url: z.string().meta({ format: 'uri' }),
  event_types: z.array(z.enum(EVENT_TYPES)),
  enabled: z.boolean(),
  created_at: z.string().meta({ format: 'date-time' }),
}
const webhookEndpoint = z.object(shape).meta({ id: 'WebhookEndpoint' })

export const newWebhookEndpoint = z
  .object({
    ...shape,
    secret: z.string().meta({
      description: 'Signs the deliveries: 64 hex characters, whose UTF-8 bytes are the HMAC key. Shown this once.',
    }),
  })
  .meta({ id: 'NewWebhookEndpoint' })

export const webhookEndpointPage = z
  .object({
    data: z.array(webhookEndpoint).meta({ description: 'Oldest first.' }),
    next_cursor: z.string().nullable().meta({ description: 'Null on the last page.' }),
  })
  .meta({ id: 'WebhookEndpointPage' })

export const endpointsQuery = z.object(PAGE_SHAPE)

/** GET /webhook-endpoints. */
export function showEndpoints(database: Queryable): Handle {
  return async (call) => {
    const query = validate(endpointsQuery, Object.fromEntries(call.query), 'validation_failed')
    if (!query.ok) return query.refusal
    const page = pageOf('endpoints', query.value)
    if (!page.ok) return page.refusal
    const { endpoints, next } = await listEndpoints(
      database,
      call.key.organizationId,
      page.value.after,
      page.value.limit,
    )
    const body: z.infer<typeof webhookEndpointPage> = {
      data: endpoints.map(toWire),
      next_cursor: next === null ? null : placeToWire('endpoints', next),
    }
    return jsonAnswer(body)
  }
}

/** POST /webhook-endpoints. */
export function postEndpoint(dependencies: CreateDependencies, allowed: Networks): Prepare {
  return (call) => {
    const checked = validate(webhookEndpointRequest, call.body, 'validation_failed', unknownField)
    if (!checked.ok) return checked
    const { url, event_types: types } = checked.value
    const vetted = vetUrl(url, allowed)
    if (!vetted.ok) return refused(refusal('validation_failed', `'url' ${vetted.reason}.`, { param: 'url' }))
    return ok(async (attempt) => {
      // The route requires the key, so there is an attempt.
      if (attempt === null) throw new Error('an endpoint is made with an Idempotency-Key only')
      const made = await createEndpoint(dependencies, {
        organizationId: call.key.organizationId,
        url,
        eventTypes: types,
        attempt: attempt.id,
        keep: (endpoint, secret) => attempt.keep(keptJson(withSecret(endpoint, secret), 201)),
      })
      return made.ok ? jsonAnswer(withSecret(made.value.endpoint, made.value.secret), 201) : made.refusal
    })
  }
}

/** DELETE /webhook-endpoints/{id}. */
export function deleteEndpoint(dependencies: RemoveDependencies): Prepare {
  return (call) =>
    ok(async (attempt) => {
      const [id = ''] = call.parameters
      const keep = async () =>
        attempt === null
          ? []
          : await attempt.keep({ status: 204, contentType: null, operationId: null, body: new Uint8Array() })
      const removed = await removeEndpoint(dependencies, call.key.organizationId, id, keep)
      return removed.ok ? new Response(null, { status: 204 }) : removed.refusal
    })
}

/** In envelope A what the schema does not know is like any other fault of a field (E5). */
const unknownField: ExplainIssue = (issue) => {
  if (issue.code !== 'unrecognized_keys') return null
  const param = (issue.keys[0] ?? '').slice(0, 64)
  return refusal('validation_failed', `There is no field '${param}' here; leave it out.`, { param })
}

function toWire({ id, url, eventTypes: types, enabled, createdAtMs }: Endpoint): z.infer<typeof webhookEndpoint> {
  return { id, url, event_types: [...types], enabled, created_at: toTimestamp(createdAtMs) }
}

function withSecret(endpoint: Endpoint, secret: Secret): z.infer<typeof newWebhookEndpoint> {
  return { ...toWire(endpoint), secret: secret.reveal() }
}
