/** Part of `app.ts`: the admin port, which has metrics and readiness. */

import type { Metrics } from '../io/metrics.ts'
import { checkReadiness, type ReadinessDependencies } from '../readiness.ts'

export function adminPort(
  metrics: Pick<Metrics, 'text' | 'contentType'>,
  readiness: ReadinessDependencies,
): (request: Request) => Promise<Response> {
  return async (request) => {
    const { pathname } = new URL(request.url)
    if (pathname === '/metrics') {
      return new Response(await metrics.text(), { headers: { 'Content-Type': metrics.contentType } })
    }
    if (pathname !== '/ready') return new Response('This port has /metrics and /ready.\n', { status: 404 })
    const reasons = await checkReadiness(readiness)
    return Response.json({ ready: reasons.length === 0, reasons }, { status: reasons.length === 0 ? 200 : 503 })
  }
}
