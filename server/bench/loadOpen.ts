/** Open loop: calls leave at a fixed rate, and each latency counts from the instant its call was due, so that a stall
 * of the target shows in full, in every call that was due while it lasted. */
import { ClientConnection } from './connection.ts'
import { sharedMicroseconds } from './instant.ts'
import type { PacerOrder } from './pacer.ts'
import type { OpenOutcome, OpenPlan } from './plan.ts'
import { encodeRequests, Tally } from './requests.ts'
import { Samples } from './statistics.ts'

/** How long to wait for the last answers; those that don't come count as errors. */
const DRAIN_LIMIT_MS = 15_000
/** Time for the pacing thread to start, so that the first calls aren't late. */
const START_DELAY_MS = 200

export async function runOpen(plan: OpenPlan): Promise<OpenOutcome> {
  const requests = encodeRequests(plan.aim)
  const tally = new Tally()
  const latency = new Samples()
  const sendLag = new Samples()
  const intervalMs = 1000 / plan.ratePerSecond
  const warmups = Math.floor(plan.ratePerSecond * plan.warmupSeconds)
  const total = warmups + Math.max(1, Math.floor(plan.ratePerSecond * plan.seconds))
  const idle: ClientConnection[] = []
  /** Sequence numbers that are due and wait for a connection. Bounded by the plan: rate × seconds. */
  const waiting: number[] = []
  let made = 0
  let due = 0
  const startAt = sharedMicroseconds() + START_DELAY_MS * 1000
  const sinceDueMs = (sequence: number) => (sharedMicroseconds() - startAt) / 1000 - sequence * intervalMs
  const connectAnother = (): ClientConnection | undefined => {
    if (made >= plan.maxConnections) return undefined
    made++
    return new ClientConnection(plan.aim.port)
  }

  const pacer = new Worker(new URL('./pacer.ts', import.meta.url).href)
  const pending = new Int32Array(new SharedArrayBuffer(4))
  await new Promise<void>((resolve) => {
    const limit = setTimeout(resolve, total * intervalMs + DRAIN_LIMIT_MS)
    const send = (connection: ClientConnection, sequence: number): void => {
      const request = requests[sequence % requests.length]
      if (request === undefined) throw new Error('a plan needs at least one request')
      connection.call(request, {
        onEnd: ({ error }) => {
          if (tally.count(error) && sequence >= warmups) latency.add(sinceDueMs(sequence))
          if (tally.good + tally.errors >= total || tally.hopeless) {
            clearTimeout(limit)
            resolve()
          }
          const next = waiting.shift()
          if (next === undefined) idle.push(connection)
          else send(connection, next)
        },
      })
    }
    pacer.onmessage = () => {
      Atomics.store(pending, 0, 0)
      for (; due < total && sinceDueMs(due) >= 0; due++) {
        if (due >= warmups) sendLag.add(sinceDueMs(due))
        const connection = idle.pop() ?? connectAnother()
        if (connection === undefined) waiting.push(due)
        else send(connection, due)
      }
    }
    pacer.postMessage({ startAt, intervalMs, count: total, pending } satisfies PacerOrder)
  })
  pacer.terminate()

  const unanswered = tally.hopeless ? 0 : total - tally.good - tally.errors
  const firstError = tally.firstError ?? (unanswered > 0 ? `${unanswered} calls were not answered in time` : null)
  const latencyMs = latency.percentiles()
  const errors = tally.errors + unanswered
  const sums = { calls: latencyMs.count, allCalls: tally.good, errors, firstError }
  return { ...sums, latencyMs, sendLagMs: sendLag.percentiles() }
}
