/** Closed loop: each connection sends its next call when the last one is answered. For throughput, not for latency
 * under load: a stalled target stalls the driver too. At one connection its p50 is the latency of an idle gateway. */
import { ClientConnection } from './connection.ts'
import type { ClosedOutcome, ClosedPlan } from './plan.ts'
import { encodeRequests, Tally } from './requests.ts'
import { Samples } from './statistics.ts'

/** After the end, open calls are waited for this long, so that what was answered and what was charged agree. */
const DRAIN_LIMIT_MS = 10_000

export async function runClosed(plan: ClosedPlan): Promise<ClosedOutcome> {
  const requests = encodeRequests(plan.aim)
  const tally = new Tally()
  const latency = new Samples()
  const startAt = performance.now() + plan.warmupSeconds * 1000
  const endAt = startAt + plan.seconds * 1000
  const maxCalls = plan.calls ?? Number.POSITIVE_INFINITY
  let measured = 0
  let lastEnd = startAt
  let open = plan.connections
  let sequence = 0

  await new Promise<void>((resolve) => {
    const drainLimit = setTimeout(resolve, endAt - performance.now() + DRAIN_LIMIT_MS)
    const next = (connection: ClientConnection): void => {
      const sentAt = performance.now()
      if (sentAt >= endAt || sequence >= maxCalls || tally.hopeless) {
        connection.close()
        if (--open === 0) {
          clearTimeout(drainLimit)
          resolve()
        }
        return
      }
      const request = requests[sequence++ % requests.length]
      if (request === undefined) throw new Error('a plan needs at least one request')
      connection.call(request, {
        onEnd: ({ error }) => {
          const now = performance.now()
          const good = tally.count(error)
          if (good && plan.reportEvery && tally.good % plan.reportEvery === 0) {
            console.log(JSON.stringify({ calls: tally.good }))
          }
          if (good && now >= startAt && now < endAt) {
            measured++
            lastEnd = now
            latency.add(now - sentAt)
          }
          next(connection)
        },
      })
    }
    for (let index = 0; index < plan.connections; index++) next(new ClientConnection(plan.aim.port))
  })

  const perSecond = measured / Math.max(0.001, (lastEnd - startAt) / 1000)
  const latencyMs = latency.percentiles()
  const { good, errors, firstError } = tally
  return { calls: measured, allCalls: good, errors, firstError, latencyMs, perSecond }
}
