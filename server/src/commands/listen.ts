import { createHmac } from 'node:crypto'
import { createParser, type EventSourceMessage } from 'eventsource-parser'
import { HEADER_BRAND } from '../kernel/brand.ts'
import { Secret } from '../kernel/secret.ts'
import { SECOND_MS, sleep } from '../kernel/time.ts'
import { Watchdog } from '../kernel/watchdog.ts'
import { openApi, SERVER_OPTION, ServerRefusal, ServerUnreached } from './api.ts'
import { type Command, CommandFailure, type Invocation, UsageFailure } from './command.ts'
import { createForwarder, type Forwarder } from './forwarder.ts'
import type { Surroundings } from './surroundings.ts'

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
    const { url, key } = surroundings.server(invocation.text('server'))
    const secret = secretOf(key)
    const forwarder = createForwarder(invocation, surroundings, target, secret)
    const listener: Listener = {
      invocation,
      surroundings,
      url,
      forwarder,
      isGreeted: false,
      isAway: false,
      lastEventId: null,
    }
    const greet = () => surroundings.stdout(greeting(invocation, target, secret))
    let backoffMs = BACKOFF_FIRST_MS
    // Until the process is ended, or the server says that it will not.
    for (;;) {
      const opened = await follow(listener, greet)
      if (opened) backoffMs = BACKOFF_FIRST_MS
      await sleep(surroundings.clock, backoffMs)
      backoffMs = Math.min(backoffMs * 2, BACKOFF_MOST_MS)
    }
  },
}

interface Listener {
  readonly invocation: Invocation
  readonly surroundings: Surroundings
  readonly url: string
  readonly forwarder: Forwarder
  /** Once the first stream is open. */
  isGreeted: boolean
  /** It was said that there is no stream. */
  isAway: boolean
  /** Behind which the next stream begins; null: now. */
  lastEventId: string | null
}

/** The same for each run with a key, so that it need be put into the developer's settings only once. */
function secretOf(key: Secret): Secret {
  return new Secret(createHmac('sha256', key.reveal()).update('tollgate listen').digest('hex'))
}

function greeting({ json }: Invocation, target: string, secret: Secret): string {
  if (json) return `${JSON.stringify({ listening: true, forward_to: target, secret: secret.reveal() })}\n`
  return (
    `Events are forwarded to ${target}, until you press Ctrl-C.\n` +
    `They are signed with this secret, the same each time with this API key:\n\n${secret.reveal()}\n\n`
  )
}

/** One connection, to its end; whether there was one. Throws what trying again would not mend. */
async function follow(listener: Listener, greet: () => void): Promise<boolean> {
  const { invocation, surroundings, forwarder } = listener
  const over = new AbortController()
  const watchdog = new Watchdog(surroundings.clock, () => over.abort())
  const hear = () => watchdog.due(surroundings.clock.monotonicMs() + SILENCE_MS)
  hear()
  try {
    const { lastEventId } = listener
    const headers = lastEventId === null ? {} : { 'Last-Event-ID': lastEventId }
    const call = { method: 'GET', path: '/manage/v1/events', headers } as const
    const response = await openApi(invocation, surroundings, call, over.signal)
    listener.lastEventId ??= response.headers.get(`${HEADER_BRAND}-Stream-Start`)
    if (!listener.isGreeted) greet()
    else tell(listener, { listening: true }, 'listening again')
    listener.isGreeted = true
    listener.isAway = false
    await readEvents(response, hear, async (message) => {
      await forwarder.forward(message)
      listener.lastEventId = message.id ?? listener.lastEventId
      // While events wait for a slow receiver the stream is not read, and not silent.
      hear()
    })
    lose(listener, `the connection to ${listener.url} is lost`)
    return true
  } catch (error) {
    if (!(error instanceof CommandFailure)) throw error
    if (error instanceof ServerRefusal && error.status === 422 && listener.lastEventId !== null) {
      listener.lastEventId = null
      const reason = 'the server no longer knows the last event: what came since then is not forwarded'
      tell(listener, { listening: false, reason }, reason)
      return false
    }
    if (!isPassing(error, listener)) throw error
    lose(listener, error.message)
    return false
  } finally {
    watchdog.stop()
    over.abort()
  }
}

/** Whether it is worth waiting for. A server that was never there is more likely a wrong address than a pause. */
function isPassing(error: CommandFailure, { isGreeted }: Listener): boolean {
  if (error instanceof ServerRefusal) return error.status >= 500 || error.status === 429
  return error instanceof ServerUnreached && isGreeted
}

/** Says once that there is no stream. */
function lose(listener: Listener, reason: string): void {
  if (listener.isAway) return
  listener.isAway = true
  tell(listener, { listening: false, reason }, `${reason.replace(/\.$/, '')}; trying again`)
}

/** Beside the events: with --json among them, else on stderr. */
function tell({ invocation, surroundings }: Listener, facts: object, text: string): void {
  if (invocation.json) surroundings.stdout(`${JSON.stringify(facts)}\n`)
  else surroundings.stderr(`tollgate: ${text}\n`)
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
