/** A whole gateway in this process behind a real port, so that clients can hang up and stop reading. */

import { systemClock } from '../../src/io/clock.ts'
import { listen } from '../../src/io/httpServer.ts'
import type { Clock } from '../../src/kernel/time.ts'
import { type Gateway, openGateway, type TestKey } from '../gateway.ts'

export interface ChargeSeen {
  readonly outcome: string
  readonly estimated: boolean
  readonly promptTokens: number
  readonly completionTokens: number
}

export interface OpenPort {
  readonly gateway: Gateway
  readonly port: number
  /** Sends a chat call as a client that can hang up. */
  chat(key: TestKey, body: object, signal?: AbortSignal): Promise<Response>
  /** Resolves when the server knows of so many hang-ups in all. */
  hungUp(count: number): Promise<void>
  /** Resolves when no request is open and no charge on its way. */
  idle(): Promise<void>
  /** What a customer was charged so far, oldest first. */
  charges(key: TestKey): Promise<ChargeSeen[]>
  close(): Promise<void>
}

const PROMPT = [{ role: 'user', content: 'Hello' }]

/** One model, `svc/stepped`, at the upstream's address: 1 cent a token in and 2 out. One open request a key. */
export async function openPort(upstreamUrl: string, clock: Clock = systemClock): Promise<OpenPort> {
  const gateway = await openGateway({ settings: settingsFor(upstreamUrl), clock })
  let hangUps = 0
  const waiting: (() => void)[] = []
  const server = listen({
    host: '127.0.0.1',
    port: 0,
    maxBodyBytes: 1 << 20,
    handle: (request, peer) => {
      request.signal.addEventListener('abort', () => {
        hangUps += 1
        for (const wake of waiting.splice(0)) wake()
      })
      return gateway.app.handle(request, peer)
    },
    onError: () => new Response(null, { status: 500 }),
  })
  return {
    gateway,
    port: server.port,
    chat: ({ key }, body, signal) =>
      fetch(`http://127.0.0.1:${server.port}/v1/chat/completions`, {
        method: 'POST',
        headers: { Authorization: `Bearer ${key}` },
        body: JSON.stringify({ model: 'svc/stepped', messages: PROMPT, ...body }),
        ...(signal === undefined ? {} : { signal }),
      }),
    async hungUp(count) {
      while (hangUps < count) await new Promise<void>((resolve) => waiting.push(resolve))
    },
    async idle() {
      for (;;) {
        const response = await gateway.app.handleAdmin(new Request('http://gateway.test/metrics'))
        const text = await response.text()
        if (/^tollgate_open_requests 0$/m.test(text) && /^tollgate_unposted_charges 0$/m.test(text)) return
        await new Promise((resolve) => setImmediate(resolve))
      }
    },
    charges: ({ organizationId }) => readCharges(gateway, organizationId),
    async close() {
      await server.kill()
      await gateway.close()
    },
  }
}

function settingsFor(upstreamUrl: string): string {
  return `
open_requests_per_key: 1
upstreams:
  stepped: { dialect: openai, base_url: "${upstreamUrl}" }
models:
  - id: svc/stepped
    context_length: 100000000
    pricing: { input_per_1m_tokens_cents: 1000000, output_per_1m_tokens_cents: 2000000 }
    targets: [{ upstream: stepped, model: stepped }]
`
}

async function readCharges(gateway: Gateway, organizationId: string): Promise<ChargeSeen[]> {
  const rows = await gateway.database.query<{
    outcome: string
    estimated: boolean
    prompt_tokens: bigint
    completion_tokens: bigint
  }>(
    `select outcome, estimated, prompt_tokens, completion_tokens from charges
     where organization_id = $1::uuid order by admitted_at, id`,
    [organizationId],
  )
  return rows.map((row) => ({
    outcome: row.outcome,
    estimated: row.estimated,
    promptTokens: Number(row.prompt_tokens),
    completionTokens: Number(row.completion_tokens),
  }))
}
