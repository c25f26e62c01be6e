import { z } from 'zod'
import { jsonAnswer, keptJson } from '../../http/jsonAnswer.ts'
import type { Prepare } from '../../http/onceForKey.ts'
import type { Handle } from '../../http/pipeline.ts'
import type { KeyOrSession } from '../../http/principal.ts'
import { validate } from '../../http/validate.ts'
import type { AuditedFields } from '../../identity/audit/entry.ts'
import type { Noter } from '../../identity/audit/note.ts'
import type { Queryable } from '../../infra/postgres/database.ts'
import { refusal } from '../../lib/errors.ts'
import { cursorPage, LIST_SHAPE, listPage } from '../../lib/listPage.ts'
import type { Networks } from '../../lib/networks.ts'
import { ok, refused } from '../../lib/result.ts'
import type { Secret } from '../../lib/secret.ts'
import { toTimestamp } from '../../lib/time.ts'
import { EVENT_TYPES } from '../events/event.ts'
import { pageOf } from '../pages/page.ts'
import { placeToWire } from '../pages/place.ts'
import { type CreateDependencies, createEndpoint } from './create.ts'
import type { WebhookEndpoint } from './endpoint.ts'
import { vetUrl } from './guard.ts'
import { type RemoveDependencies, removeEndpoint } from './remove.ts'
import { listEndpointsAfter } from './store.ts'

const eventTypes = z
  .array(z.enum(EVENT_TYPES, { error: `must be one of ${EVENT_TYPES.join(', ')}` }))
  .min(1, { error: 'must name at least one event type' })
  .max(EVENT_TYPES.length, { error: 'must name each event type once' })

export const webhookEndpointRequest = z
  .strictObject({
    url: z.string().meta({
      description:
        'HTTPS, on the public internet, at most 2048 characters. Kept in the normal form of the URL standard.',
      format: 'uri',
    }),
    event_types: eventTypes
      .refine((types) => new Set(types).size === types.length, { error: 'must name each event type once' })
      .meta({ description: 'Only these types are sent. Event types that the service adds later are not.' }),
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
      description: 'The HMAC key of deliveries: 64 hex characters, used as text, not decoded. Shown only here.',
    }),
  })
  .meta({ id: 'NewWebhookEndpoint' })

export const webhookEndpointPage = cursorPage(webhookEndpoint, 'Oldest first.', 'WebhookEndpointPage')

export const endpointsQuery = z.object(LIST_SHAPE)

/** GET /webhook-endpoints. */
export function showEndpoints(database: Queryable): Handle<KeyOrSession> {
  return async (call) => {
    const query = validate(endpointsQuery, Object.fromEntries(call.query), 'validation_failed')
    if (!query.ok) return query.refusal
    const page = pageOf('endpoints', query.value)
    if (!page.ok) return page.refusal
    const { after, limit } = page.value
    const found = await listEndpointsAfter(database, call.principal.organizationId, after, limit + 1)
    const { data, last } = listPage(found, limit, toWire)
    const body: z.infer<typeof webhookEndpointPage> = {
      data: [...data],
      next_cursor: last === null ? null : placeToWire('endpoints', last),
    }
    return jsonAnswer(body)
  }
}

interface Audited {
  /** Writes changes into the audit log. */
  readonly noter: Noter
}

/** POST /webhook-endpoints. */
export function postEndpoint(dependencies: CreateDependencies & Audited, allowed: Networks): Prepare<KeyOrSession> {
  return (call) => {
    const checked = validate(webhookEndpointRequest, call.body, 'validation_failed', undefined, 'validation_failed')
    if (!checked.ok) return checked
    const { event_types: types } = checked.value
    const vetted = vetUrl(checked.value.url, allowed)
    if (!vetted.ok) return refused(refusal('validation_failed', `'url' ${vetted.reason}.`, { param: 'url' }))
    return ok(async (attempt) => {
      // The route requires the key, so there is an attempt.
      if (attempt === null) throw new Error('an endpoint is made with an Idempotency-Key only')
      const note = dependencies.noter(call)
      const made = await createEndpoint(dependencies, {
        organizationId: call.principal.organizationId,
        url: vetted.url,
        eventTypes: types,
        attempt: attempt.id,
        keep: async (endpoint, secret) => [
          note({
            action: 'webhook_endpoint.created',
            subjectId: endpoint.id,
            before: null,
            after: auditedFieldsOf(endpoint),
          }),
          ...(await attempt.keep(keptJson(withSecret(endpoint, secret), 201))),
        ],
      })
      return made.ok ? jsonAnswer(withSecret(made.value.endpoint, made.value.secret), 201) : made.refusal
    })
  }
}

/** DELETE /webhook-endpoints/{id}. */
export function deleteEndpoint(dependencies: RemoveDependencies & Audited): Prepare<KeyOrSession> {
  return (call) =>
    ok(async (attempt) => {
      const [id = ''] = call.parameters
      const note = dependencies.noter(call)
      const kept = { status: 204, contentType: null, operationId: null, body: new Uint8Array() }
      const keep = async (endpoint: WebhookEndpoint) => [
        note({
          action: 'webhook_endpoint.deleted',
          subjectId: endpoint.id,
          before: auditedFieldsOf(endpoint),
          after: null,
        }),
        ...((await attempt?.keep(kept)) ?? []),
      ]
      const removed = await removeEndpoint(dependencies, call.principal.organizationId, id, keep)
      return removed.ok ? new Response(null, { status: 204 }) : removed.refusal
    })
}

/** The fields of an endpoint in the audit log. The path and the query of many URLs are secrets: whoever knows them may send to them. */
function auditedFieldsOf({ url, eventTypes: types }: WebhookEndpoint): AuditedFields {
  return { origin: new URL(url).origin, event_types: types.join(', ') }
}

function toWire({
  id,
  url,
  eventTypes: types,
  enabled,
  createdAtMs,
}: WebhookEndpoint): z.infer<typeof webhookEndpoint> {
  return { id, url, event_types: [...types], enabled, created_at: toTimestamp(createdAtMs) }
}

function withSecret(endpoint: WebhookEndpoint, secret: Secret): z.infer<typeof newWebhookEndpoint> {
  return { ...toWire(endpoint), secret: secret.reveal() }
}
