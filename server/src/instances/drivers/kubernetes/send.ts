/** Requests of the official client, sent within bounds. */

import type { HttpLibrary, RequestContext, ResponseContext } from '@kubernetes/client-node'
import type { TlsFetch, TlsIdentity } from '../../../infra/tlsFetch.ts'
import { ClusterFailure, clusterRefusal } from './clusterFailure.ts'

/** More than a page of 250 pods has. */
const BODY_BYTES_MOST = 64 * 1024 * 1024

/** More than one object can have: etcd takes 1.5 MB. */
const LINE_BYTES_MOST = 4 * 1024 * 1024

/** The parts of the client that make a library of its requests. */
export interface ClientParts {
  wrapHttpLibrary(library: { send(request: RequestContext): Promise<ResponseContext> }): HttpLibrary
  ResponseContext: typeof ResponseContext
}

export interface ClusterSending {
  readonly signal: AbortSignal
  /** In place of the client's. */
  readonly contentType?: string
  /** Gets each line of a good answer as it comes, and the client an empty list. */
  readonly onLine?: (line: string) => void
}

/** Returns the library by which the client sends one request. Its failures are those of `clusterFailure.ts`. */
export function librarySending(parts: ClientParts, fetch: TlsFetch, sending: ClusterSending): HttpLibrary {
  return parts.wrapHttpLibrary({
    async send(request) {
      const { status, text } = await exchange(request, fetch, sending)
      const body = { text: () => Promise.resolve(text), binary: () => Promise.resolve(Buffer.from(text)) }
      return new parts.ResponseContext(status, { 'content-type': 'application/json' }, body)
    },
  })
}

async function exchange(request: RequestContext, send: TlsFetch, { signal, contentType, onLine }: ClusterSending) {
  const headers = { ...request.getHeaders(), ...(contentType === undefined ? {} : { 'Content-Type': contentType }) }
  const init = { method: request.getHttpMethod(), headers, body: request.getBody() ?? null, signal }
  try {
    const response = await send(request.getUrl(), init, identityOf(request))
    const { status } = response
    if (status < 200 || status > 299) {
      throw clusterRefusal(status, response.headers.get('retry-after'), await textOf(response))
    }
    if (onLine === undefined) return { status, text: await textOf(response) }
    await readLines(response, onLine)
    return { status, text: '{"items":[],"metadata":{}}' }
  } catch (error) {
    signal.throwIfAborted()
    if (error instanceof ClusterFailure) throw error
    // The words of a broken connection may have the address; its code says enough.
    const { code } = error as { code?: unknown }
    throw new ClusterFailure(0, `the cluster could not be reached (${typeof code === 'string' ? code : 'no code'})`)
  }
}

/** The TLS options that the client would have given to an agent of its own. */
function identityOf(request: RequestContext): TlsIdentity {
  const options = request.getAgent()?.options ?? {}
  const pem = (value: unknown) => (typeof value === 'string' || Buffer.isBuffer(value) ? value : undefined)
  const { servername } = options
  return {
    ca: pem(options['ca']),
    cert: pem(options['cert']),
    key: pem(options['key']),
    serverName: typeof servername === 'string' ? servername : undefined,
  }
}

async function textOf(response: Response): Promise<string> {
  const chunks: Uint8Array[] = []
  let length = 0
  // Leaving the loop cancels the rest.
  for await (const chunk of response.body ?? []) {
    length += chunk.length
    if (length > BODY_BYTES_MOST) throw new ClusterFailure(0, 'an answer of the cluster is too large')
    chunks.push(chunk)
  }
  return Buffer.concat(chunks).toString()
}

async function readLines(response: Response, onLine: (line: string) => void): Promise<void> {
  const decoder = new TextDecoder()
  let rest = ''
  for await (const chunk of response.body ?? []) {
    const lines = (rest + decoder.decode(chunk, { stream: true })).split('\n')
    rest = lines.pop() ?? ''
    if (rest.length > LINE_BYTES_MOST) throw new ClusterFailure(0, 'a line of the watch is too long')
    for (const line of lines) if (line !== '') onLine(line)
  }
}
