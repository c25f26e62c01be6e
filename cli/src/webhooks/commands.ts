import { shortInstant, table } from '../../../server/src/lib/table.ts'
import { callApi } from '../api.ts'
import type { CliCommand, CliOption } from '../command.ts'
import { idempotencyKey } from '../idempotencyKey.ts'
import { nextPage } from '../nextPage.ts'
import { wholeNumberOf } from '../values.ts'

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
  readonly reason: string | null
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
export const createWebhookCommand: CliCommand = {
  words: ['webhooks', 'create'],
  summary: 'Make a webhook endpoint and show its secret, only once',
  argument: { name: 'URL', summary: 'the https address that events are sent to' },
  options: [
    { name: 'events', value: 'TYPES', summary: 'event types, such as video.completed,video.failed', isRequired: true },
  ],
  examples: ['tollgate webhooks create https://example.com/hooks --events video.completed,video.failed'],
  run: async (args, system) => {
    const types = args.required('events').split(',')
    const made = (await callApi(args, system, {
      method: 'POST',
      path: ENDPOINTS,
      body: { url: args.argument, event_types: types.map((type) => type.trim()) },
      headers: { 'Idempotency-Key': idempotencyKey(system) },
    })) as Endpoint
    return {
      json: made,
      text:
        `Made the webhook endpoint ${made.id}: ${made.event_types.join(', ')} to ${made.url}.\n` +
        `Its signing secret; keep it now, it can't be shown again:\n\n${made.secret}\n`,
      undo: {
        run: async () => void (await callApi(args, system, { method: 'DELETE', path: `${ENDPOINTS}/${made.id}` })),
        done: `the webhook endpoint ${made.id} was deleted`,
        advice: `nobody has seen its secret: delete it with "tollgate webhooks delete ${made.id}"`,
      },
    }
  },
}

/** `tollgate webhooks list` */
export const listWebhooksCommand: CliCommand = {
  words: ['webhooks', 'list'],
  summary: "List the organization's webhook endpoints, oldest first",
  options: [],
  examples: ['tollgate webhooks list'],
  run: async (args, system) => {
    // At most 50, so one page.
    const page = (await callApi(args, system, {
      method: 'GET',
      path: `${ENDPOINTS}?limit=200`,
    })) as Page<Endpoint>
    return {
      json: page,
      text: table(
        ['ID', 'URL', 'EVENTS'],
        page.data.map(({ id, url, event_types }) => [id, url, event_types.join(', ')]),
        'There are no webhook endpoints: make one with "tollgate webhooks create URL --events video.completed".',
        system.stdoutColumns,
      ),
    }
  },
}

/** `tollgate webhooks delete ID` */
export const deleteWebhookCommand: CliCommand = {
  words: ['webhooks', 'delete'],
  summary: 'Delete a webhook endpoint, its secret and its pending deliveries',
  argument: ID,
  options: [],
  examples: ['tollgate webhooks delete 01920e4c-7c00-7c3a-9d5e-0a6f4f1b2c3d'],
  run: async (args, system) => {
    const id = args.argument
    await callApi(args, system, { method: 'DELETE', path: `${ENDPOINTS}/${encodeURIComponent(id)}` })
    return { json: { id, deleted: true }, text: `Deleted the webhook endpoint ${id}.\n` }
  },
}

const FILTERS: readonly CliOption[] = [
  { name: 'state', value: 'STATE', summary: 'only those in this state: pending, delivered or dead' },
  { name: 'endpoint', value: 'ID', summary: 'only those to this endpoint' },
  { name: 'event', value: 'ID', summary: 'only those of this event' },
  { name: 'cursor', value: 'CURSOR', summary: 'the `next_cursor` of the page before' },
]

/** More are read page by page through the HTTP interface. */
const DELIVERIES_MAX = 200

/** `tollgate webhooks deliveries` */
export const listDeliveriesCommand: CliCommand = {
  words: ['webhooks', 'deliveries'],
  summary: 'List deliveries of the last 30 days, newest first',
  options: [...FILTERS, { name: 'limit', value: 'N', summary: `how many, up to ${DELIVERIES_MAX}; 50 when left out` }],
  examples: ['tollgate webhooks deliveries --state dead', 'tollgate webhooks deliveries --json --limit 200'],
  run: async (args, system) => {
    const query = new URLSearchParams({ limit: String(wholeNumberOf(args, 'limit', DELIVERIES_MAX) ?? 50) })
    const cursor = args.text('cursor')
    if (cursor !== undefined) query.set('cursor', cursor)
    for (const name of ['state', 'endpoint', 'event'] as const) {
      const value = args.text(name)
      if (value !== undefined) query.set(name === 'state' ? name : `${name}_id`, value)
    }
    const path = `${DELIVERIES}?${query}`
    const page = (await callApi(args, system, { method: 'GET', path })) as Page<Delivery>
    const heading = ['ID', 'TYPE', 'STATE', 'ATTEMPTS', 'NEXT']
    const none = page.next_cursor === null ? 'There are no such deliveries.' : 'There are none on this page.'
    const shown = table(heading, page.data.map(toRow), none, system.stdoutColumns)
    return { json: page, text: shown + nextPage(args, page.next_cursor) }
  },
}

function toRow(delivery: Delivery): string[] {
  const { id, event_type, state, reason, attempts, next_attempt_at } = delivery
  const last = attempts.at(-1)
  const came = last === undefined ? reason : (last.failure ?? last.status)
  const tried = came === null ? `${attempts.length}` : `${attempts.length}, ${came}`
  return [id, event_type, state, tried, next_attempt_at ? shortInstant(next_attempt_at) : '-']
}

/** `tollgate webhooks redeliver ID` */
export const redeliverCommand: CliCommand = {
  words: ['webhooks', 'redeliver'],
  summary: 'Deliver an event to its endpoint again, with the whole schedule of attempts',
  argument: { name: 'ID', summary: 'the delivery\'s id, as "tollgate webhooks deliveries" shows it' },
  options: [],
  examples: ['tollgate webhooks redeliver 01920e4c-7c00-7c3a-9d5e-0a6f4f1b2c3d'],
  run: async (args, system) => {
    const path = `${DELIVERIES}/${encodeURIComponent(args.argument)}/redeliver`
    const delivery = (await callApi(args, system, { method: 'POST', path })) as Delivery
    return { json: delivery, text: `The event ${delivery.event_id} is on its way again.\n` }
  },
}

/** `tollgate webhooks test ID` */
export const testWebhookCommand: CliCommand = {
  words: ['webhooks', 'test'],
  summary: 'Send a sample event to a webhook endpoint',
  argument: ID,
  options: [
    {
      name: 'type',
      value: 'TYPE',
      summary: 'a type of event that the endpoint is subscribed to, such as video.failed; default: the first of them',
    },
  ],
  examples: ['tollgate webhooks test 01920e4c-7c00-7c3a-9d5e-0a6f4f1b2c3d --type video.failed'],
  run: async (args, system) => {
    const type = args.text('type')
    const query = type === undefined ? '' : `?${new URLSearchParams({ type })}`
    const path = `/manage/v1/webhook-endpoints/${encodeURIComponent(args.argument)}/test${query}`
    const delivery = (await callApi(args, system, { method: 'POST', path })) as Delivery
    return {
      json: delivery,
      text:
        `A sample of ${delivery.event_type} is on its way.\n` +
        `See its delivery: tollgate webhooks deliveries --event ${delivery.event_id}\n`,
    }
  },
}
