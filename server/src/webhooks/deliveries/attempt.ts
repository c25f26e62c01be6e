import type { Resolve } from '../../infra/dns.ts'
import { type Http, type HttpAnswer, HttpFailure } from '../../infra/httpClient.ts'
import type { Log } from '../../lib/log.ts'
import type { Networks } from '../../lib/networks.ts'
import type { Secret } from '../../lib/secret.ts'
import { type Clock, SECOND_MS } from '../../lib/time.ts'
import { signedHeaders } from '../../lib/webhookSignature.ts'
import { mayConnect, vetAddresses, vetUrl, type WebhookTarget } from '../endpoints/guard.ts'
import type { AttemptFailure, DeliveryAttemptResult } from './delivery.ts'

/** For everything together: looking the name up, connecting, sending, and all of the answer. */
const DEADLINE_MS = 10 * SECOND_MS

/** One address that swallows everything must leave time for another. */
const CONNECT_MS = 4 * SECOND_MS

/** Addresses of a name that are tried, one after the other, as long as none was reached. */
const ADDRESSES_MOST = 3

/** Of an answer's body: kept for the log, and read at all; what is beyond is not waited for. */
const KEPT_BYTES = 4_096
const READ_BYTES = 65_536

/** Never reached: it is read in pieces that are far smaller. */
const ANSWER_BYTES_MOST = 16 * 1_024 * 1_024

export interface AttemptDependencies {
  /** A client of its own, that keeps no connection: other calls must not run out of them. */
  readonly http: Http
  readonly resolve: Resolve
  readonly clock: Clock
  readonly allowed: Networks
  readonly log: Log
}

/** The content and the address of one attempt. */
export interface Sending {
  readonly url: string
  /** Rejects when the secret can't be opened. */
  readonly secret: () => Promise<Secret>
  readonly eventId: string
  readonly body: string
}

/** Sends a delivery once. Never rejects; null when `stop` ended it before its outcome was known. */
export async function attemptDelivery(
  dependencies: AttemptDependencies,
  sending: Sending,
  stop: AbortSignal,
): Promise<DeliveryAttemptResult | null> {
  const { clock } = dependencies
  const startedAtMs = clock.now()
  const startedMs = clock.monotonicMs()
  const over = new AbortController()
  const end = (failure: AttemptFailure) => over.abort(new Failed(failure))
  const onStop = () => over.abort(STOPPED)
  const cancelDeadline = clock.after(DEADLINE_MS, () => end('timeout'))
  stop.addEventListener('abort', onStop)
  if (stop.aborted) onStop()
  const outcome = (part: Pick<DeliveryAttemptResult, 'status' | 'failure' | 'answer'>): DeliveryAttemptResult => ({
    startedAtMs,
    latencyMs: Math.round(clock.monotonicMs() - startedMs),
    ...part,
  })
  try {
    const target = targetOf(sending.url, dependencies.allowed)
    const addresses = await findAddresses(dependencies, target, over.signal)
    const answer = await send(dependencies, sending, { target, addresses }, over.signal, startedAtMs)
    return outcome({ status: answer.status, failure: null, answer: await readAnswer(answer) })
  } catch (error) {
    if (error === STOPPED) return null
    const failure = failureOf(error)
    // Counted like any other: what fails here would else be tried again at once, for ever.
    if (failure === 'internal') dependencies.log.error({ err: error }, 'a webhook could not be sent, by a fault here')
    return outcome({ status: null, failure, answer: null })
  } finally {
    cancelDeadline()
    stop.removeEventListener('abort', onStop)
  }
}

class Failed extends Error {
  readonly failure: AttemptFailure
  constructor(failure: AttemptFailure) {
    super(failure)
    this.failure = failure
  }
}

const STOPPED = new Error('stopped')

/** Checked again at every attempt: the operator may have closed a network since. */
function targetOf(url: string, allowed: Networks): WebhookTarget {
  const vetted = vetUrl(url, allowed)
  if (!vetted.ok) throw new Failed('refused_address')
  return vetted.target
}

/**
 * Returns the addresses that the connection may go to. The name is resolved this once, and the connection uses the
 * result: an answer that changes afterwards reaches nothing else.
 */
async function findAddresses(
  { resolve, allowed }: AttemptDependencies,
  target: WebhookTarget,
  signal: AbortSignal,
): Promise<readonly string[]> {
  if (target.literal !== null) return [target.literal]
  signal.throwIfAborted()
  const found = await new Promise<readonly string[]>((done, fail) => {
    signal.addEventListener('abort', () => fail(signal.reason), { once: true })
    resolve(target.host).then(done, () => fail(new Failed('unresolved')))
  })
  const vetted = vetAddresses(target, found, allowed)
  if (vetted === null) throw new Failed(found.length === 0 ? 'unresolved' : 'refused_address')
  return vetted.slice(0, ADDRESSES_MOST)
}

async function send(
  { http, allowed }: AttemptDependencies,
  { url, secret, eventId, body }: Sending,
  { target, addresses }: { readonly target: WebhookTarget; readonly addresses: readonly string[] },
  signal: AbortSignal,
  atMs: number,
): Promise<HttpAnswer> {
  const headers = { ...signedHeaders({ eventId, body }, await secret(), atMs), connection: 'close' }
  for (const [index, address] of addresses.entries()) {
    if (!mayConnect(target, address, allowed)) throw new Failed('refused_address')
    const connectMs = addresses.length === 1 ? DEADLINE_MS : CONNECT_MS
    try {
      return await http.post(url, { headers, body, signal, connectMs, maxBytes: ANSWER_BYTES_MOST, address })
    } catch (error) {
      const isReached = !(error instanceof HttpFailure) || error.outcomeUnknown
      if (isReached || index === addresses.length - 1) throw error
    }
  }
  throw new Failed('unresolved')
}

/** The first bytes of the body, once it has ended or nothing more of it is read. */
async function readAnswer(answer: HttpAnswer): Promise<Uint8Array> {
  const pieces: Uint8Array[] = []
  let readBytes = 0
  try {
    // A receiver that sends more has answered; the rest says nothing that anybody would look at.
    while (readBytes < READ_BYTES) {
      const piece = await answer.read()
      if (piece === null) break
      if (readBytes < KEPT_BYTES) pieces.push(piece.slice(0, KEPT_BYTES - readBytes))
      readBytes += piece.byteLength
    }
  } finally {
    answer.cancel()
  }
  return new Uint8Array(Buffer.concat(pieces))
}

function failureOf(error: unknown): AttemptFailure {
  if (error instanceof Failed) return error.failure
  if (!(error instanceof HttpFailure)) return 'internal'
  if (error.code === 'ETIMEDOUT') return 'timeout'
  if (!error.outcomeUnknown) return 'unreachable'
  return error.code === 'MALFORMED' ? 'malformed' : 'broken'
}
