import { toHex } from '../kernel/ids.ts'
import { callApi, SERVER_OPTION } from './api.ts'
import { type Command, type OptionSpec, UsageFailure } from './command.ts'
import { table } from './table.ts'

const ENDPOINTS = '/v1/webhook-endpoints'
const DELIVERIES = '/manage/v1/deliveries'

interface Endpoint {
  readonly id: string
  readonly url: string
  readonly event_types: readonly string[]
  readonly created_at: string
  readonly secret?: string
}

interface Delivery {
  readonly id: string
  readonly endpoint_id: string
  readonly event_id: string
  readonly event_type: string
  readonly state: string
  readonly created_at: string
  readonly next_attempt_at: string | null
  readonly attempts: readonly { status: number | null; failure: string | null; latency_ms: number }[]
}

interface Page<T> {
  readonly data: readonly T[]
  readonly next_cursor: string | null
}

const ID = { name: 'ID', summary: 'the endpoint\'s id, as "tollgate webhooks list" shows it' }

/** `tollgate webhooks create URL --events …` */
export const createWebhookCommand: Command = {
  words: ['webhooks', 'create'],
  summary: 'Make a webhook endpoint and show its secret, this once',
  argument: { name: 'URL', summary: 'where events are sent to, https' },
  options: [
    { name: 'events', value: 'TYPES', summary: 'such as video.completed,video.failed', required: true },
    SERVER_OPTION,
  ],
  examples: ['tollgate webhooks create https://example.com/hooks --events video.completed,video.failed'],
  run: async (invocation, surroundings) => {
    const types = invocation.required('events').split(',')
    const made = (await callApi(invocation, surroundings, {
      method: 'POST',
      path: ENDPOINTS,
      body: { url: invocation.argument, event_types: types.map((type) => type.trim()) },
      headers: { 'Idempotency-Key': toHex(surroundings.randomBytes(16)) },
    })) as Endpoint
    return {
      json: made,
      text:
        `Made the webhook endpoint ${made.id}: ${made.event_types.join(', ')} to ${made.url}.\n` +
        `Its signing secret; keep it now, it can't be shown again:\n\n${made.secret}\n`,
    }
  },
}

/** `tollgate webhooks list` */
export const listWebhooksCommand: Command = {
  words: ['webhooks', 'list'],
  summary: "List the organization's webhook endpoints, oldest first",
  options: [SERVER_OPTION],
  examples: ['tollgate webhooks list'],
  run: async (invocation, surroundings) => {
    // At most 50, so one page.
    const page = (await callApi(invocation, surroundings, {
      method: 'GET',
      path: `${ENDPOINTS}?limit=200`,
    })) as Page<Endpoint>
    return {
      json: page.data,
      text: table(
        ['ID', 'URL', 'EVENTS', 'MADE'],
        page.data.map(({ id, url, event_types, created_at }) => [id, url, event_types.join(','), created_at]),
        'There are no webhook endpoints: make one with "tollgate webhooks create URL --events video.completed".',
      ),
    }
  },
}

/** `tollgate webhooks delete ID` */
export const deleteWebhookCommand: Command = {
  words: ['webhooks', 'delete'],
  summary: 'Delete a webhook endpoint, its secret, and what is on its way to it',
  argument: ID,
  options: [SERVER_OPTION],
  examples: ['tollgate webhooks delete 01920e4c-7c00-7c3a-9d5e-0a6f4f1b2c3d'],
  run: async (invocation, surroundings) => {
    const id = invocation.argument
    await callApi(invocation, surroundings, { method: 'DELETE', path: `${ENDPOINTS}/${encodeURIComponent(id)}` })
    return { json: { id, deleted: true }, text: `Deleted the webhook endpoint ${id}.\n` }
  },
}

const FILTERS: readonly OptionSpec[] = [
  { name: 'state', value: 'STATE', summary: 'only those that are pending, delivered or dead' },
  { name: 'endpoint', value: 'ID', summary: 'only those to this endpoint' },
  { name: 'event', value: 'ID', summary: 'only those of this event' },
]

/** More are read page by page through the HTTP interface. */
const LIMIT_MAX = 200

/** `tollgate webhooks deliveries` */
export const listDeliveriesCommand: Command = {
  words: ['webhooks', 'deliveries'],
  summary: 'List deliveries of the last 30 days, newest first',
  options: [
    ...FILTERS,
    { name: 'limit', value: 'N', summary: `how many, up to ${LIMIT_MAX}`, preset: '50' },
    SERVER_OPTION,
  ],
  examples: ['tollgate webhooks deliveries --state dead', 'tollgate webhooks deliveries --json --limit 200'],
  run: async (invocation, surroundings) => {
    const limit = invocation.text('limit') ?? '50'
    if (!/^\d{1,3}$/.test(limit)) throw new UsageFailure(`--limit: '${limit}' is no number from 1 to ${LIMIT_MAX}`)
    const query = new URLSearchParams({ limit })
    for (const name of ['state', 'endpoint', 'event'] as const) {
      const value = invocation.text(name)
      if (value !== undefined) query.set(name === 'state' ? name : `${name}_id`, value)
    }
    const path = `${DELIVERIES}?${query}`
    const page = (await callApi(invocation, surroundings, { method: 'GET', path })) as Page<Delivery>
    return {
      json: page.data,
      text: table(
        ['ID', 'EVENT', 'TYPE', 'STATE', 'ATTEMPTS', 'LAST', 'MADE', 'NEXT ATTEMPT'],
        page.data.map(toRow),
        'There are no such deliveries.',
      ),
    }
  },
}

function toRow(delivery: Delivery): string[] {
  const { id, event_id, event_type, state, attempts, created_at, next_attempt_at } = delivery
  const last = attempts.at(-1)
  const came = last === undefined ? '-' : `${last.failure ?? last.status} in ${last.latency_ms} ms`
  return [id, event_id, event_type, state, `${attempts.length}`, came, created_at, next_attempt_at ?? '-']
}

/** `tollgate webhooks redeliver ID` */
export const redeliverCommand: Command = {
  words: ['webhooks', 'redeliver'],
  summary: 'Deliver an event to its endpoint again, with the whole schedule of attempts',
  argument: { name: 'ID', summary: 'the delivery\'s id, as "tollgate webhooks deliveries" shows it' },
  options: [SERVER_OPTION],
  examples: ['tollgate webhooks redeliver 01920e4c-7c00-7c3a-9d5e-0a6f4f1b2c3d'],
  run: async (invocation, surroundings) => {
    const path = `${DELIVERIES}/${encodeURIComponent(invocation.argument)}/redeliver`
    const delivery = (await callApi(invocation, surroundings, { method: 'POST', path })) as Delivery
    return { json: delivery, text: `The event ${delivery.event_id} is on its way again.\n` }
  },
}

/** `tollgate webhooks test ID` */
export const testWebhookCommand: Command = {
  words: ['webhooks', 'test'],
  summary: 'Send a sample event to a webhook endpoint',
  argument: ID,
  options: [
    { name: 'type', value: 'TYPE', summary: 'video.completed or video.failed; the first that it subscribed to' },
    SERVER_OPTION,
  ],
  examples: ['tollgate webhooks test 01920e4c-7c00-7c3a-9d5e-0a6f4f1b2c3d --type video.failed'],
  run: async (invocation, surroundings) => {
    const type = invocation.text('type')
    const query = type === undefined ? '' : `?${new URLSearchParams({ type })}`
    const path = `/manage/v1/webhook-endpoints/${encodeURIComponent(invocation.argument)}/test${query}`
    const delivery = (await callApi(invocation, surroundings, { method: 'POST', path })) as Delivery
    return {
      json: delivery,
      text:
        `A sample of ${delivery.event_type} is on its way.\n` +
        `What becomes of it: tollgate webhooks deliveries --event ${delivery.event_id}\n`,
    }
  },
}
