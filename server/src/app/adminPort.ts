/** Answers the admin port: metrics and readiness. */

import { splitUrl } from '../http/routeTable.ts'
import type { Metrics } from '../infra/metrics.ts'
import type { QueueFigures } from '../infra/workMetrics.ts'
import { checkReadiness, type ReadinessDependencies } from './readiness.ts'

export interface AdminPortDependencies extends ReadinessDependencies {
  readonly metrics: Pick<Metrics, 'text' | 'contentType'>
  /** Reads what waits in the database; null where that can't be told now. Never rejects, and soon resolves. */
  readonly queues: () => Promise<QueueFigures | null>
  /** Returns what an operator should look at though calls are served, a line each. */
  readonly warnings: () => readonly string[]
  /** Hosts by which the port may be asked beside those of the loopback, in lower case, without ports. */
  readonly hosts: readonly string[]
}

/** The port is on the loopback address. */
const LOOPBACK_HOSTS = ['localhost', '127.0.0.1', '[::1]']

const WRONG_HOST =
  'This port answers requests to localhost, 127.0.0.1 or [::1]. ' +
  'To reach it by another name, add that name to admin_hosts in tollgate.yaml.\n'

/**
 * Returns the function that answers the admin port, which asks nobody for a key. A page whose name was made to lead to this
 * machine (DNS rebinding) is refused with 403: its browser sends the page's own name as `Host`. A request without a `Host`
 * comes from no browser, and is answered.
 */
export function adminPort({ metrics, queues, hosts, warnings, ...readiness }: AdminPortDependencies) {
  const known: ReadonlySet<string> = new Set([...LOOPBACK_HOSTS, ...hosts])
  return async (request: Request): Promise<Response> => {
    const host = request.headers.get('Host') ?? ''
    if (host !== '' && !known.has(withoutPort(host))) return new Response(WRONG_HOST, { status: 403 })
    const { path } = splitUrl(request.url)
    if (path === '/metrics') {
      const page = await metrics.text(await queues())
      return new Response(page, { headers: { 'Content-Type': metrics.contentType } })
    }
    if (path !== '/ready') return new Response('This port has /metrics and /ready.\n', { status: 404 })
    const reasons = await checkReadiness(readiness)
    const ready = reasons.length === 0
    return Response.json({ ready, reasons, warnings: warnings() }, { status: ready ? 200 : 503 })
  }
}

function withoutPort(host: string): string {
  return host.replace(/:\d*$/, '').toLowerCase()
}
