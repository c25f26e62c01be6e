/** A customer who does nothing wrong: small chat calls at a steady pace, whatever becomes of the others. */

import { Agent, request } from 'node:http'
import { type Percentiles, Samples } from '../../bench/statistics.ts'

export interface TenantSeen {
  /** From the instant at which a call was due to the last byte of its answer, in milliseconds. */
  readonly latencies: Percentiles
  readonly byStatus: ReadonlyMap<number, number>
}

/** Calls a second: enough for a p99 of ten seconds, and far below the limit of a key. */
const CALLS_PER_SECOND = 50
/** A call that has no answer by then counts as this long, with status 0. */
const CALL_LIMIT_MS = 30_000

const BODY = JSON.stringify({
  model: 'svc/sandbox',
  messages: [{ role: 'user', content: 'Hello [[sandbox tokens=4 first_token_ms=0 tokens_per_second=0]]' }],
  max_tokens: 4,
})

/** Calls until `end` is called, which waits for the last answers and gives all of what was seen. */
export function startTenant(url: string, key: string): { end(): Promise<TenantSeen> } {
  const agent = new Agent({ keepAlive: true, maxSockets: 64 })
  const samples = new Samples()
  const byStatus = new Map<number, number>()
  const open = new Set<Promise<void>>()
  const startedMs = performance.now()
  let due = 0
  const call = async (dueMs: number) => {
    const status = await send(url, key, agent)
    samples.add(performance.now() - dueMs)
    byStatus.set(status, (byStatus.get(status) ?? 0) + 1)
  }
  const tick = setInterval(() => {
    // The clock decides how many are due: a late timer makes no gap.
    for (; startedMs + (due * 1_000) / CALLS_PER_SECOND <= performance.now(); due += 1) {
      const calling = call(startedMs + (due * 1_000) / CALLS_PER_SECOND).finally(() => open.delete(calling))
      open.add(calling)
    }
  }, 1)
  return {
    async end() {
      clearInterval(tick)
      await Promise.all(open)
      agent.destroy()
      return { latencies: samples.percentiles(), byStatus }
    },
  }
}

/** Resolves to the status of the whole answer; 0 where there was none. */
function send(url: string, key: string, agent: Agent): Promise<number> {
  return new Promise((resolve) => {
    const headers = {
      Authorization: `Bearer ${key}`,
      'Content-Type': 'application/json',
      'Content-Length': BODY.length,
    }
    const options = { method: 'POST', agent, headers, signal: AbortSignal.timeout(CALL_LIMIT_MS) }
    const sent = request(`${url}/chat/completions`, options, (response) => {
      response.resume()
      response.on('end', () => resolve(response.statusCode ?? 0))
      response.on('error', () => resolve(0))
    })
    sent.on('error', () => resolve(0))
    sent.end(BODY)
  })
}
