/** A server that behaves like the model hub: a file's address redirects to its storage, which serves ranges. */
import { createHash } from 'node:crypto'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'

export interface HubFileServed {
  readonly bytes: Uint8Array
  /** The SHA-256 that the hub gives for the file; left out, the true one. Null: it gives none. */
  readonly linkedEtag?: string | null
}

export interface Hub {
  readonly origin: string
  /** By address, such as `owner/repo/file.gguf`. */
  readonly files: Map<string, HubFileServed>
  /** Answers for addresses that are not to be redirected to storage. */
  readonly statuses: Map<string, { readonly status: number; readonly location?: string }>
  /** `METHOD path range` of every request so far. */
  readonly requests: string[]
  /** The storage holds still before it sends the byte at this place of a file. */
  holdAtByte: number
  stop(): void
}

/** Starts a hub on a free loopback port. */
export async function startHub(): Promise<Hub> {
  const server = createServer((request, response) => answer(hub, request, response))
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const hub: Hub = {
    origin: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    files: new Map(),
    statuses: new Map(),
    requests: [],
    holdAtByte: Number.POSITIVE_INFINITY,
    stop() {
      server.closeAllConnections()
      server.close()
    },
  }
  return hub
}

function answer(hub: Hub, request: IncomingMessage, response: ServerResponse): void {
  const url = new URL(request.url ?? '/', hub.origin)
  hub.requests.push(`${request.method} ${url.pathname} ${request.headers.range ?? ''}`.trim())
  if (url.pathname.startsWith('/storage/')) {
    store(hub, request, response, url.pathname.slice('/storage/'.length))
    return
  }
  const name = url.pathname.slice(1).replace('/resolve/main/', '/')
  const fixed = hub.statuses.get(name)
  const file = hub.files.get(name)
  if (fixed !== undefined)
    response.writeHead(fixed.status, fixed.location === undefined ? {} : { location: fixed.location })
  else if (file === undefined) response.writeHead(404, { 'x-error-code': 'EntryNotFound' })
  else {
    const etag =
      file.linkedEtag === undefined ? `"${createHash('sha256').update(file.bytes).digest('hex')}"` : file.linkedEtag
    response.writeHead(302, {
      location: `${hub.origin}/storage/${name}`,
      'x-linked-size': String(file.bytes.length),
      ...(etag === null ? {} : { 'x-linked-etag': etag }),
    })
  }
  response.end()
}

function store(hub: Hub, request: IncomingMessage, response: ServerResponse, name: string): void {
  const file = hub.files.get(name)
  if (file === undefined) {
    response.writeHead(404).end()
    return
  }
  const [, from, to] = /^bytes=(\d+)-(\d+)$/.exec(request.headers.range ?? '') ?? []
  const start = Number(from ?? 0)
  const end = to === undefined ? file.bytes.length : Number(to) + 1
  const bytes = file.bytes.subarray(start, end)
  response.writeHead(from === undefined ? 200 : 206, {
    'accept-ranges': 'bytes',
    'content-length': String(bytes.length),
    ...(from === undefined ? {} : { 'content-range': `bytes ${start}-${end - 1}/${file.bytes.length}` }),
  })
  if (end <= hub.holdAtByte) response.end(bytes)
  else response.write(bytes.subarray(0, Math.max(0, hub.holdAtByte - start)))
}
