import { createHmac } from 'node:crypto'
import { doubledMs } from '../../../server/src/lib/backoff.ts'
import { HEADER_BRAND } from '../../../server/src/lib/brand.ts'
import { Secret } from '../../../server/src/lib/secret.ts'
import { SECOND_MS, sleep } from '../../../server/src/lib/time.ts'
import { Watchdog } from '../../../server/src/lib/watchdog.ts'
import { askedServer, isTransient, openStream, ServerRefusal, ServerUnreached } from '../api.ts'
import type { CliCommand, CommandLine } from '../command.ts'
import { readEvents } from '../eventStream.ts'
import { CliFailure, UsageMistake } from '../failure.ts'
import { keyFor } from '../logins.ts'
import { sayNotice } from '../notice.ts'
import type { System } from '../system.ts'
import { createForwarder, type Forwarder } from './forwarder.ts'

/** The server says something every 15 s; a stream that is silent for so long is dead. */
const SILENCE_MS = 45 * SECOND_MS

/** Between two connections; doubled while the server is away. */
const BACKOFF_FIRST_MS = SECOND_MS
const BACKOFF_MOST_MS = 15 * SECOND_MS

/** `tollgate listen --forward-to URL` */
export const listenCommand: CliCommand = {
  words: ['listen'],
  summary: "Forward the organization's events to a server on this machine, signed like webhooks",
  options: [
    {
      name: 'forward-to',
      value: 'URL',
      summary: 'where events are posted to, such as http://127.0.0.1:3000/hooks',
      isRequired: true,
    },
  ],
  examples: ['tollgate listen --forward-to http://127.0.0.1:3000/hooks'],
  run: async (args, system) => {
    const target = args.required('forward-to')
    if (!/^https?:\/\//i.test(target) || !URL.canParse(target))
      throw new UsageMistake(`--forward-to: '${target}' is not an address such as http://127.0.0.1:3000/hooks`)
    const url = await askedServer(args, system)
    const secret = secretOf(await keyFor(system, url))
    const forwarder = createForwarder(args, system, target, secret)
    const listener: Listener = {
      args,
      system,
      url,
      forwarder,
      isGreeted: false,
      isAway: false,
      lastEventId: null,
    }
    const greet = () => system.stdout(greeting(args, target, secret))
    let failures = 0
    // Until the process is ended, or the server says that it will not.
    for (;;) {
      const opened = await follow(listener, greet)
      if (opened) failures = 0
      await sleep(system.clock, doubledMs(BACKOFF_FIRST_MS, BACKOFF_MOST_MS, failures))
      failures += 1
    }
  },
}

interface Listener {
  readonly args: CommandLine
  readonly system: System
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

function greeting({ json }: CommandLine, target: string, secret: Secret): string {
  if (json) return `${JSON.stringify({ listening: true, forward_to: target, secret: secret.reveal() })}\n`
  return (
    `Events are forwarded to ${target}, until you press Ctrl-C.\n` +
    `They are signed with this secret. It stays the same for this API key:\n\n${secret.reveal()}\n\n`
  )
}

/** One connection, to its end; whether there was one. Throws what trying again would not mend. */
async function follow(listener: Listener, greet: () => void): Promise<boolean> {
  const { args, system, forwarder } = listener
  const over = new AbortController()
  const watchdog = new Watchdog(system.clock, () => over.abort())
  const hear = () => watchdog.due(system.clock.monotonicMs() + SILENCE_MS)
  hear()
  try {
    const { lastEventId } = listener
    const headers = lastEventId === null ? {} : { 'Last-Event-ID': lastEventId }
    const call = { method: 'GET', path: '/manage/v1/events', headers } as const
    const response = await openStream(args, system, call, over.signal)
    listener.lastEventId ??= response.headers.get(`${HEADER_BRAND}-Stream-Start`)
    if (!listener.isGreeted) greet()
    else tell(listener, { listening: true }, 'listening again')
    listener.isGreeted = true
    listener.isAway = false
    await readEvents(response, {
      onBytes: hear,
      onMessage: async (message) => {
        await forwarder.forward(message)
        listener.lastEventId = message.id ?? listener.lastEventId
        // While events wait for a slow receiver the stream is not read, and not silent.
        hear()
      },
    })
    lose(listener, `the connection to ${listener.url} is lost`)
    return true
  } catch (error) {
    if (!(error instanceof CliFailure)) throw error
    if (error instanceof ServerRefusal && error.status === 422 && listener.lastEventId !== null) {
      listener.lastEventId = null
      const reason = 'the server no longer has the last event: events since then are not forwarded'
      tell(listener, { listening: false, reason }, reason)
      return false
    }
    if (!isPause(error, listener)) throw error
    lose(listener, error.message)
    return false
  } finally {
    watchdog.stop()
    over.abort()
  }
}

/** Returns whether it is worth waiting for. A server that was never there is more likely a wrong address than a pause. */
function isPause(error: CliFailure, { isGreeted }: Listener): boolean {
  return isTransient(error) && (isGreeted || !(error instanceof ServerUnreached))
}

/** Says once that there is no stream. */
function lose(listener: Listener, reason: string): void {
  if (listener.isAway) return
  listener.isAway = true
  tell(listener, { listening: false, reason }, `${reason.replace(/\.$/, '')}; trying again`)
}

/** Beside the events: with --json among them, else on stderr. */
function tell({ args, system }: Listener, facts: object, text: string): void {
  if (args.json) system.stdout(`${JSON.stringify(facts)}\n`)
  else sayNotice(system, { code: 'listen', message: `tollgate: ${text}` })
}
