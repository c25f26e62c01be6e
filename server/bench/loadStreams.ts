/** Streamed calls: the time to the first token, and how late each chunk comes against the mock's own schedule. */
import { ClientConnection } from './connection.ts'
import { sharedMicroseconds } from './instant.ts'
import type { StreamsOutcome, StreamsPlan } from './plan.ts'
import { encodeRequests, Tally } from './requests.ts'
import { Samples } from './statistics.ts'

/** Finds the mock's stamps, `@<microseconds>;`, in a stream whose pieces may break anywhere. */
class StampScanner {
  #carry = ''

  /** Calls `onStamp` with the instant of every stamp that is complete by now. */
  push(piece: Buffer, onStamp: (dueAt: number) => void): void {
    const text = this.#carry + piece.toString('latin1', 0, piece.length)
    let from = 0
    for (;;) {
      const start = text.indexOf('@', from)
      if (start < 0) {
        this.#carry = ''
        return
      }
      const end = text.indexOf(';', start)
      if (end < 0) {
        this.#carry = text.slice(start, start + 32)
        return
      }
      onStamp(Number(text.slice(start + 1, end)))
      from = end + 1
    }
  }
}

export async function runStreams(plan: StreamsPlan): Promise<StreamsOutcome> {
  const requests = encodeRequests(plan.aim)
  const tally = new Tally()
  const whole = new Samples()
  const firstToken = new Samples()
  const lateness = new Samples()
  const expected = expectedChunks(plan)
  const repeatUntil = performance.now() + plan.repeatSeconds * 1000
  let open = plan.connections
  let sequence = 0

  await new Promise<void>((resolve) => {
    const limit = setTimeout(resolve, plan.deadlineSeconds * 1000)
    const run = (connection: ClientConnection): void => {
      const request = requests[sequence++ % requests.length]
      if (request === undefined) throw new Error('a plan needs at least one request')
      const scanner = new StampScanner()
      const sentAt = performance.now()
      let stamps = 0
      connection.call(request, {
        onBody: (piece) =>
          scanner.push(piece, (dueAt) => {
            if (stamps++ === 0) firstToken.add(performance.now() - sentAt)
            lateness.add((sharedMicroseconds() - dueAt) / 1000)
          }),
        onEnd: ({ error }) => {
          const missing = error === null && stamps !== expected ? `${stamps} of ${expected} chunks came` : error
          if (tally.count(missing)) whole.add(performance.now() - sentAt)
          if (performance.now() < repeatUntil && !tally.hopeless) return run(connection)
          connection.close()
          if (--open > 0) return
          clearTimeout(limit)
          resolve()
        },
      })
    }
    for (let index = 0; index < plan.connections; index++) {
      setTimeout(() => run(new ClientConnection(plan.aim.port)), (index / plan.connections) * plan.rampMs)
    }
  })

  const firstError = tally.firstError ?? (open > 0 ? `${open} streams were still open at the deadline` : null)
  const sums = { calls: tally.good, allCalls: tally.good, errors: tally.errors + open, firstError }
  const timings = { firstTokenMs: firstToken.percentiles(), latenessMs: lateness.percentiles() }
  return { ...sums, latencyMs: whole.percentiles(), ...timings }
}

/** The number of text chunks that the mock model in the body (or the gateway's name for it) is to send. */
function expectedChunks(plan: StreamsPlan): number {
  const match = /mock-(\d+)x\d+/.exec(JSON.stringify(plan.aim.body))
  if (match === null) throw new Error('a streams plan needs a model named mock-<chunks>x<ms>')
  return Number(match[1])
}
