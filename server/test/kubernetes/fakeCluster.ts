/** A fake of the API of Kubernetes at the wire: paths, JSON, lists in pages, watches with versions. It keeps what it is given. */

import { certificateFor } from '../certificate.ts'
import { type ApiClient, apiClient } from './apiClient.ts'

interface Metadata {
  name: string
  namespace?: string
  uid?: string
  resourceVersion?: string
  labels?: Record<string, string>
  finalizers?: string[] | null
  deletionTimestamp?: string
}

interface KubernetesObject {
  metadata: Metadata
  [field: string]: unknown
}

interface Place {
  readonly group: string
  readonly namespace: string | null
  readonly resource: string
  readonly name: string | null
}

interface Change {
  readonly version: number
  readonly type: string
  readonly resource: string
  readonly object: KubernetesObject
}

export interface AskedOfCluster {
  readonly method: string
  readonly path: string
  readonly query: URLSearchParams
  readonly contentType: string
  readonly authorization: string
}

/** Returns the answer to a request in place of the cluster's; null: the cluster answers. */
export type Fault = (asked: AskedOfCluster) => Response | Promise<Response> | null

export interface FakeCluster {
  readonly server: string
  readonly ca: string
  readonly token: string
  readonly admin: ApiClient
  readonly asked: AskedOfCluster[]
  fault: Fault
  /** Watches that are open. */
  watches(): number
  /** Ends all watches: `line` is their last words. */
  endWatches(line?: string): void
  /** Forgets all changes so far: who watches from an older version gets 410. */
  forget(): void
  stop(): Promise<void>
}

export const OWN_TOKEN_OF_FAKE = 'token-of-the-gateway'

/** A `Status` of the API. */
export function statusAnswer(
  code: number,
  reason: string,
  message: string,
  headers: Record<string, string> = {},
): Response {
  const body = { kind: 'Status', apiVersion: 'v1', metadata: {}, status: 'Failure', message, reason, code }
  return Response.json(body, { status: code, headers })
}

interface Watcher {
  readonly resource: string
  send(line: string): void
  end(): void
}

export async function startFakeCluster(): Promise<FakeCluster> {
  const { key, cert } = await certificateFor('localhost')
  const kept = new KeptObjects()
  const cluster = {
    ...{ ca: cert, token: OWN_TOKEN_OF_FAKE, asked: [] as AskedOfCluster[], fault: (() => null) as Fault },
    watches: () => kept.watchers.size,
    endWatches(line?: string) {
      for (const each of [...kept.watchers]) {
        if (line !== undefined) each.send(line)
        each.end()
      }
    },
    forget: () => kept.forget(),
  }
  const server = Bun.serve({
    ...{ port: 0, hostname: '127.0.0.1', tls: { key, cert }, idleTimeout: 0 },
    async fetch(request) {
      const url = new URL(request.url)
      const asked: AskedOfCluster = {
        ...{ method: request.method, path: url.pathname, query: url.searchParams },
        contentType: request.headers.get('content-type') ?? '',
        authorization: request.headers.get('authorization') ?? '',
      }
      if (asked.authorization !== 'Bearer admin') {
        cluster.asked.push(asked)
        if (asked.authorization !== `Bearer ${OWN_TOKEN_OF_FAKE}`)
          return statusAnswer(401, 'Unauthorized', 'Unauthorized')
        const fault = cluster.fault(asked)
        if (fault !== null) return fault
      }
      const text = await request.text()
      const body = text === '' || request.method === 'DELETE' ? null : (JSON.parse(text) as KubernetesObject)
      return kept.answer(asked, body)
    },
  })
  const address = `https://localhost:${server.port}`
  return Object.assign(cluster, {
    server: address,
    admin: apiClient(address, cert, 'admin'),
    stop: () => server.stop(true),
  })
}

/** The objects, and what happened to them. */
class KeptObjects {
  readonly watchers = new Set<Watcher>()
  private readonly objects = new Map<string, KubernetesObject>()
  private readonly changes: Change[] = []
  private version = 0
  private oldest = 0

  forget(): void {
    this.version += 1
    this.oldest = this.version
  }

  answer(asked: AskedOfCluster, body: KubernetesObject | null): Response {
    const place = placeOfPath(asked.path)
    if (place === null) return statusAnswer(404, 'NotFound', 'the server could not find the requested resource')
    if (place.name === null) {
      if (asked.method === 'POST' && body !== null) return this.post(place, body)
      return asked.query.get('watch') === 'true' ? this.watch(place, asked.query) : this.list(place, asked.query)
    }
    const path = pathOf(place, place.name)
    const found = this.objects.get(path)
    if (found === undefined) {
      const isApplied = asked.method === 'PATCH' && asked.contentType.includes('apply') && body !== null
      if (isApplied) return this.add(place, path, body)
      return statusAnswer(404, 'NotFound', `${place.resource} "${place.name}" not found`)
    }
    if (asked.method === 'PATCH' && body !== null) this.patch(place, path, found, body)
    if (asked.method === 'DELETE') this.delete(place, path, found, asked.query.get('propagationPolicy'))
    return Response.json(found)
  }

  private post(place: Place, body: KubernetesObject): Response {
    const at = pathOf(place, body.metadata.name)
    if (this.objects.has(at)) return statusAnswer(409, 'AlreadyExists', `${at} already exists`)
    const isHomeless = place.namespace !== null && !this.objects.has(`v1//namespaces/${place.namespace}`)
    if (isHomeless) return statusAnswer(404, 'NotFound', `namespaces "${place.namespace}" not found`)
    return this.add(place, at, body)
  }

  private add({ namespace, resource }: Place, path: string, body: KubernetesObject): Response {
    const home = namespace === null ? {} : { namespace }
    const object = { ...body, metadata: { ...body.metadata, ...home, uid: crypto.randomUUID() } }
    this.objects.set(path, object)
    this.changed('ADDED', resource, object)
    return Response.json(object, { status: 201 })
  }

  private patch(place: Place, path: string, found: KubernetesObject, body: KubernetesObject): void {
    merge(found, body)
    const { deletionTimestamp, finalizers } = found.metadata
    if (deletionTimestamp !== undefined && (finalizers ?? []).length === 0) this.remove(place, path, found)
    else this.changed('MODIFIED', place.resource, found)
  }

  private delete(place: Place, path: string, found: KubernetesObject, propagation: string | null): void {
    if (propagation !== 'Foreground') {
      this.remove(place, path, found)
      return
    }
    found.metadata.deletionTimestamp = '2026-01-01T00:00:00Z'
    found.metadata.finalizers = ['foregroundDeletion']
    this.changed('MODIFIED', place.resource, found)
  }

  private remove({ resource }: Place, path: string, found: KubernetesObject): void {
    this.objects.delete(path)
    this.changed('DELETED', resource, found)
  }

  private changed(type: string, resource: string, object: KubernetesObject): void {
    this.version += 1
    object.metadata.resourceVersion = String(this.version)
    const change = { version: this.version, type, resource, object: structuredClone(object) }
    this.changes.push(change)
    for (const each of this.watchers) if (each.resource === resource) each.send(lineOf(type, change.object))
  }

  private list({ group, resource, namespace }: Place, query: URLSearchParams): Response {
    const from = Number(query.get('continue') ?? 0)
    const limit = Number(query.get('limit') ?? 0) || Number.POSITIVE_INFINITY
    const items = [...this.objects]
      .filter(([path]) => path.startsWith(`${group}/`) && path.split('/')[2] === resource)
      .map(([, object]) => object)
      .filter(({ metadata }) => namespace === null || metadata.namespace === namespace)
      .filter((object) => isSelected(object, query.get('labelSelector')))
    const rest = from + limit < items.length ? { continue: String(from + limit) } : {}
    const metadata = { resourceVersion: String(this.version), ...rest }
    return Response.json({ kind: 'List', apiVersion: 'v1', metadata, items: items.slice(from, from + limit) })
  }

  private watch({ resource }: Place, query: URLSearchParams): Response {
    const { changes, watchers, oldest } = this
    const from = Number(query.get('resourceVersion') ?? 0)
    if (from < oldest) {
      const message = `too old resource version: ${from} (${oldest})`
      return new Response(lineOf('ERROR', { kind: 'Status', code: 410, reason: 'Expired', message }))
    }
    const encoder = new TextEncoder()
    let watcher: Watcher
    const body = new ReadableStream<Uint8Array>({
      start(controller) {
        watcher = {
          resource,
          send: (line) => controller.enqueue(encoder.encode(line)),
          end() {
            watchers.delete(watcher)
            controller.close()
          },
        }
        watcher.send(lineOf('BOOKMARK', { kind: 'Pod', metadata: { resourceVersion: String(from) } }))
        for (const change of changes) {
          if (change.resource === resource && change.version > from) {
            watcher.send(lineOf(change.type, change.object))
          }
        }
        watchers.add(watcher)
      },
      cancel: () => void watchers.delete(watcher),
    })
    return new Response(body)
  }
}

/** The kubeconfig of the gateway. */
export function fakeKubeconfig({ server, ca, token }: Pick<FakeCluster, 'server' | 'ca' | 'token'>): string {
  const data = Buffer.from(ca).toString('base64')
  return JSON.stringify({
    ...{ apiVersion: 'v1', kind: 'Config', 'current-context': 'gateway' },
    clusters: [{ name: 'cluster', cluster: { server, 'certificate-authority-data': data } }],
    users: [{ name: 'gateway', user: { token } }],
    contexts: [{ name: 'gateway', context: { cluster: 'cluster', user: 'gateway' } }],
  })
}

function lineOf(type: string, object: object): string {
  return `${JSON.stringify({ type, object })}\n`
}

function placeOfPath(path: string): Place | null {
  const [, api = '', namespace, rest = ''] =
    /^\/(?:api|apis\/[^/]+)\/(v1)(?:\/namespaces\/([^/]+)(?=\/))?\/(.+)$/.exec(path) ?? []
  const group = path.startsWith('/apis/') ? (path.split('/')[2] ?? '') : api
  const [resource = '', name] = rest.split('/')
  return resource === '' ? null : { group, namespace: namespace ?? null, resource, name: name ?? null }
}

function pathOf({ group, namespace, resource }: Place, name: string | null): string {
  return `${group}/${namespace ?? ''}/${resource}/${name}`
}

function isSelected({ metadata }: KubernetesObject, selector: string | null): boolean {
  return (selector ?? '')
    .split(',')
    .filter((each) => each !== '')
    .every((each) => {
      const [key = '', value] = each.split('=')
      return metadata.labels?.[key] === value
    })
}

/** A merge patch of JSON (RFC 7386). */
function merge(into: Record<string, unknown>, change: object): void {
  for (const [key, value] of Object.entries(change)) {
    const own = into[key]
    const isObject = (each: unknown): each is Record<string, unknown> =>
      typeof each === 'object' && each !== null && !Array.isArray(each)
    if (value === null) delete into[key]
    else if (isObject(value)) {
      const inner = isObject(own) ? own : {}
      into[key] = inner
      merge(inner, value)
    } else into[key] = value
  }
}
