import type { Clock } from '../../lib/time.ts'
import { type Http, type HttpAnswer, HttpFailure, type HttpRequest } from '../httpClient.ts'
import type { Exchange } from './exchange.ts'
import { type Destination, destinationOf, type Origin } from './origin.ts'
import { ConnectionPool, type PoolOptions } from './pool.ts'

/** URLs whose parts are remembered; calls go to the few of the settings. */
const MAX_DESTINATIONS = 1_000
const UNSENDABLE = /[^\t\x20-\x7e]/

/** The HTTP/1.1 client, over sockets of the runtime: see docs/decisions/0018-own-http-client.md. */
export function createHttp(clock: Clock, options: PoolOptions = {}): Http {
  const pool = new ConnectionPool(clock, options)
  const headOf = rememberHeads()
  const find = rememberDestinations()

  const exchange = async (
    method: string,
    url: string,
    request: HttpRequest,
    body: string | null,
  ): Promise<HttpAnswer> => {
    const { origin: found, path } = find(url)
    const { address } = request
    const origin = address === undefined ? found : { ...found, address, key: `${found.key} at ${address}` }
    const lines = headOf(request.headers)
    request.signal.throwIfAborted()
    const length = body === null ? '' : `content-length: ${Buffer.byteLength(body)}\r\n`
    const head = `${method} ${path} HTTP/1.1\r\nhost: ${origin.host}\r\n${lines}${length}\r\n`
    const text = body === null ? head : head + body
    const kept = pool.takeIdle(origin)
    if (kept === null) return await sendAnew(pool, origin, text, request)
    const sent = kept.send(text, request)
    try {
      return await sent.begun
    } catch (error) {
      if (!isToRepeat(error, sent, request)) throw error
      request.signal.throwIfAborted()
      return await sendAnew(pool, origin, text, request).catch((again: unknown) => {
        throw ofBoth(error, again)
      })
    }
  }

  return {
    post: (url, request) => exchange('POST', url, request, request.body),
    send: (method, url, request) => exchange(method, url, request, null),
    close: () => pool.close(),
  }
}

/** Sends on a new connection. */
async function sendAnew(pool: ConnectionPool, origin: Origin, text: string, request: HttpRequest): Promise<HttpAnswer> {
  const connection = await pool.connect(origin, request)
  if (request.signal.aborted) {
    pool.idle(connection)
    throw request.signal.reason
  }
  return await connection.send(text, request).begun
}

/** Returns a function that writes headers as lines, each set of headers once. */
function rememberHeads(): (headers: HttpRequest['headers']) => string {
  const heads = new WeakMap<object, string>()
  return (headers) => {
    let head = heads.get(headers)
    if (head === undefined) {
      head = headerLines(headers)
      heads.set(headers, head)
    }
    return head
  }
}

/** Returns a function that takes a URL apart, and remembers the last {@link MAX_DESTINATIONS}. */
function rememberDestinations(): (url: string) => Destination {
  const destinations = new Map<string, Destination>()
  return (url) => {
    let destination = destinations.get(url)
    if (destination === undefined) {
      destination = destinationOf(url)
      if (destinations.size >= MAX_DESTINATIONS) destinations.clear()
      destinations.set(url, destination)
    }
    return destination
  }
}

/**
 * Returns whether a request that failed on a connection which was used before is sent once more. Servers close such
 * connections when they like: while they are idle, after an answer, when they start anew.
 */
function isToRepeat(error: unknown, sent: Exchange, { mayRepeat = false }: HttpRequest): error is HttpFailure {
  if (!(error instanceof HttpFailure)) return false
  return !error.outcomeUnknown || (mayRepeat && !sent.isHeard)
}

/** The failure of a request that was sent twice: where the first may have been acted on, so may the request. */
function ofBoth(first: HttpFailure, second: unknown): unknown {
  if (!(second instanceof HttpFailure) || second.outcomeUnknown || !first.outcomeUnknown) return second
  return new HttpFailure(second.code, true)
}

/** Throws TypeError for a value that could end its line. */
function headerLines(headers: HttpRequest['headers']): string {
  let lines = ''
  for (const [name, value] of Object.entries(headers)) {
    // The value may be a credential: it is not named.
    if (UNSENDABLE.test(value)) throw new TypeError(`the header ${name} has characters that HTTP does not carry`)
    lines += `${name}: ${value}\r\n`
  }
  return lines
}
