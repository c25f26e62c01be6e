import { type IncomingMessage, request as requestHttp } from 'node:http'
import { request as requestHttps } from 'node:https'
import { Readable } from 'node:stream'
import { MINUTE_MS } from '../../server/src/lib/time.ts'
import type { SentRequest } from './system.ts'

/** Some answers need minutes, in which no byte comes: without these probes, a router on the way may forget the connection. */
const PROBE_MS = MINUTE_MS
/** A response with one of these has no body; `Response` refuses one. */
const WITHOUT_BODY: ReadonlySet<number> = new Set([204, 205, 304])

/**
 * Sends a request as `fetch` does, but has no time limit of its own: that of Node ends each answer that has not begun after 300 s
 * (decision 0162).
 * Follows no redirect: a key goes to the server that was named, and nowhere else. Rejects with the system's error.
 */
export function sendRequest(url: string, { method, headers, body, signal }: SentRequest): Promise<Response> {
  return new Promise((resolve, reject) => {
    const target = new URL(url)
    const send = target.protocol === 'https:' ? requestHttps : requestHttp
    const request = send(target, { method, headers: { 'User-Agent': 'tollgate-cli', ...headers }, signal })
    request.setSocketKeepAlive(true, PROBE_MS)
    // Stays: an error behind the headers is that of the body too, and must not end the process.
    request.on('error', reject)
    request.on('response', (incoming) => {
      try {
        resolve(responseOf(incoming))
      } catch (error) {
        request.destroy()
        reject(error)
      }
    })
    request.end(body)
  })
}

function responseOf(incoming: IncomingMessage): Response {
  const { statusCode: status = 0, rawHeaders } = incoming
  const headers = new Headers()
  for (let at = 0; at + 1 < rawHeaders.length; at += 2) headers.append(rawHeaders[at] ?? '', rawHeaders[at + 1] ?? '')
  if (WITHOUT_BODY.has(status)) {
    incoming.resume()
    return new Response(null, { status, headers })
  }
  return new Response(Readable.toWeb(incoming) as unknown as ReadableStream<Uint8Array>, { status, headers })
}
