import { createHmac } from 'node:crypto'
import { createParser, type EventSourceMessage } from 'eventsource-parser'
import { HEADER_BRAND } from '../kernel/brand.ts'
import { Secret } from '../kernel/secret.ts'
import { SECOND_MS, sleep, toTimestamp } from '../kernel/time.ts'
import { Watchdog } from '../kernel/watchdog.ts'
import { signedHeaders } from '../webhooks/deliveries/sign.ts'
import { openApi, SERVER_OPTION, ServerRefusal, ServerUnreached } from './api.ts'
import { type Command, type Invocation, UsageFailure } from './command.ts'
import type { Surroundings } from './surroundings.ts'

/** As long as a webhook endpoint has. */
const FORWARD_MS = 10 * SECOND_MS

/** The server says something every 15 s; a stream that is silent for so long is dead. */
const SILENCE_MS = 45 * SECOND_MS

/** Between two connections; doubled while the server is away. */
const BACKOFF_FIRST_MS = SECOND_MS
const BACKOFF_MOST_MS = 15 * SECOND_MS

/** `tollgate listen --forward-to URL` */
export const listenCommand: Command = {
  words: ['listen'],
  summary: "Forward the organization's events to a server on this machine, as webhooks would be",
  options: [
    {
      name: 'forward-to',
      value: 'URL',
      summary: 'where events are posted to, such as http://127.0.0.1:3000/hooks',
      required: true,
    },
    SERVER_OPTION,
  ],
  examples: ['tollgate listen --forward-to http://127.0.0.1:3000/hooks'],
  run: async (invocation, surroundings) => {
    const target = invocation.required('forward-to')
    if (!/^https?:\/\//i.test(target) || !URL.canParse(target))
      throw new UsageFailure(`--forward-to: '${target}' is no address such as http://127.0.0.1:3000/hooks`)
    const secret = secretOf(surroundings.server(invocation.text('server')).key)
    const listener: Listener = { invocation, surroundings, target, secret, lastEventId: null }
    let backoffMs = BACKOFF_FIRST_MS
    let isFirst = true
    // Until the process is ended, or the server says that it will not.
    for (;;) {
      const opened = await follow(listener, isFirst)
      isFirst = isFirst && !opened
      if (opened) backoffMs = BACKOFF_FIRST_MS
      await sleep(surroundings.clock, backoffMs)
      backoffMs = Math.min(backoffMs * 2, BACKOFF_MOST_MS)
    }
  },
}

interface Listener {
  readonly invocation: Invocation
  readonly surroundings: Surroundings
  readonly target: string
  readonly secret: Secret
  lastEventId: string | null
}

/** The same for each run with a key, so that it need be put into the developer's settings only once. */
function secretOf(key: Secret): Secret {
  return new Secret(createHmac('sha256', key.reveal()).update('tollgate listen').digest('hex'))
}

/** One connection, to its end; whether there was one. Throws what trying again would not mend. */
async function follow(listener: Listener, isFirst: boolean): Promise<boolean> {
  const { invocation, surroundings } = listener
  const over = new AbortController()
  const watchdog = new Watchdog(surroundings.clock, () => over.abort())
  const listen = () => watchdog.due(surroundings.clock.monotonicMs() + SILENCE_MS)
  listen()
  try {
    const { lastEventId } = listener
    const headers = lastEventId === null ? {} : { 'Last-Event-ID': lastEventId }
    const call = { method: 'GET', path: '/manage/v1/events', headers } as const
    const response = await openApi(invocation, surroundings, call, over.signal)
    listener.lastEventId ??= response.headers.get(`${HEADER_BRAND}-Stream-Start`)
    if (isFirst) greet(listener)
    await readEvents(response, listen, (message) => forward(listener, message))
    return true
  } catch (error) {
    if (error instanceof ServerRefusal && error.status === 422) listener.lastEventId = null
    else if (error instanceof ServerRefusal && error.status < 500 && error.status !== 429) throw error
    // The first time it is more likely a wrong address than a pause.
    else if (error instanceof ServerUnreached && isFirst) throw error
    return false
  } finally {
    watchdog.stop()
    over.abort()
  }
}

/** Reads a stream until it ends, or breaks off: one is as good as the other. */
async function readEvents(
  response: Response,
  onBytes: () => void,
  onMessage: (message: EventSourceMessage) => Promise<void>,
): Promise<void> {
  const messages: EventSourceMessage[] = []
  const parser = createParser({ onEvent: (message) => void messages.push(message) })
  const reader = response.body?.getReader()
  const decoder = new TextDecoder()
  for (;;) {
    const read = await reader?.read().catch(() => undefined)
    if (read === undefined || read.done) return
    onBytes()
    parser.feed(decoder.decode(read.value, { stream: true }))
    for (const message of messages.splice(0)) await onMessage(message)
  }
}

function greet({ invocation, surroundings, target, secret }: Listener): void {
  const facts = { listening: true, forward_to: target, secret: secret.reveal() }
  const text =
    `Events are forwarded to ${target}, until you press Ctrl-C.\n` +
    `They are signed with this secret, the same each time with this API key:\n\n${secret.reveal()}\n\n`
  surroundings.stdout(invocation.json ? `${JSON.stringify(facts)}\n` : text)
}

async function forward(listener: Listener, { id = '', event = '', data }: EventSourceMessage): Promise<void> {
  const { invocation, surroundings, target, secret } = listener
  const { clock } = surroundings
  const atMs = clock.now()
  const startedMs = clock.monotonicMs()
  const over = new AbortController()
  const cancel = clock.after(FORWARD_MS, () => over.abort())
  const headers = signedHeaders({ eventId: id, body: data }, secret, atMs)
  const status = await surroundings
    .fetch(target, { method: 'POST', headers, body: data, signal: over.signal })
    .then(async (response) => {
      await response.body?.cancel()
      return response.status
    })
    .catch(() => null)
  cancel()
  listener.lastEventId = id
  const latencyMs = Math.round(clock.monotonicMs() - startedMs)
  const came = status === null ? 'no answer' : `${status}`
  const line = { id, type: event, at: toTimestamp(atMs), status, latency_ms: latencyMs }
  const text = `${toTimestamp(atMs)}  ${event}  ${id}  ${came}, ${latencyMs} ms\n`
  surroundings.stdout(invocation.json ? `${JSON.stringify(line)}\n` : text)
}
