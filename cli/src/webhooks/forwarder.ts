import type { EventSourceMessage } from 'eventsource-parser'
import type { Secret } from '../../../server/src/lib/secret.ts'
import { SECOND_MS, toTimestamp } from '../../../server/src/lib/time.ts'
import { signedHeaders } from '../../../server/src/lib/webhookSignature.ts'
import type { CommandLine } from '../command.ts'
import { plainText } from '../plainText.ts'
import type { SentRequest, System } from '../system.ts'

/** As long as a webhook endpoint has. */
const FORWARD_MS = 10 * SECOND_MS

export interface Forwarder {
  /** Posts an event, signed, and says what came of it. Never rejects: what failed is said, and not sent again. */
  forward(message: EventSourceMessage): Promise<void>
}

export function createForwarder(args: CommandLine, system: System, target: string, secret: Secret): Forwarder {
  const { clock } = system
  let isAnswering = true
  return {
    async forward({ id = '', event = '', data }) {
      const atMs = clock.now()
      const startedMs = clock.monotonicMs()
      const headers = signedHeaders({ eventId: id, body: data }, secret, atMs)
      const answer = await post(system, target, { method: 'POST', headers, body: data })
      const latencyMs = Math.round(clock.monotonicMs() - startedMs)
      const { status, failure } = answer
      const line = { id, type: event, at: toTimestamp(atMs), status, failure, latency_ms: latencyMs }
      const text = `${toTimestamp(atMs)}  ${event}  ${id}  ${failure ?? status}, ${latencyMs} ms\n`
      system.stdout(args.json ? `${JSON.stringify(line)}\n` : plainText(text))
      if (failure !== null && isAnswering && !args.json) system.stderr(hint(target, failure))
      isAnswering = failure === null
    },
  }
}

/** The words that deliveries have for it too. */
type Failure = 'timeout' | 'unreachable'

interface Answer {
  readonly status: number | null
  readonly failure: Failure | null
}

async function post(system: System, target: string, request: Omit<SentRequest, 'signal'>): Promise<Answer> {
  const over = new AbortController()
  const cancel = system.clock.after(FORWARD_MS, () => over.abort())
  try {
    const response = await system.fetch(target, { ...request, signal: over.signal })
    await response.body?.cancel()
    return { status: response.status, failure: null }
  } catch {
    return { status: null, failure: over.signal.aborted ? 'timeout' : 'unreachable' }
  } finally {
    cancel()
  }
}

function hint(target: string, failure: Failure): string {
  const what =
    failure === 'timeout'
      ? `${target} did not answer within ${FORWARD_MS / SECOND_MS} s`
      : `nothing answers at ${target}`
  return `tollgate: ${what}. Check that your server runs. This event is not sent again.\n`
}
