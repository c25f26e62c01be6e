/** A whole gateway in this process behind a real port, so that clients can hang up and stop reading. */

import { systemClock } from '../src/infra/clock.ts'
import { listen } from '../src/infra/httpServer.ts'
import type { Clock } from '../src/lib/time.ts'
import { type Gateway, openGateway, type TestKey } from './gateway.ts'
import { metric } from './metricsPage.ts'
import { until } from './until.ts'

export interface ChargeSeen {
  readonly outcome: string
  readonly estimated: boolean
  readonly promptTokens: number
  readonly completionTokens: number
}

export interface OpenPort {
  readonly gateway: Gateway
  readonly port: number
  /** Sends a JSON body to a path beneath /v1, as a client that can hang up. */
  send(key: TestKey, path: string, body: object, signal?: AbortSignal): Promise<Response>
  /** The same for a chat call. */
  chat(key: TestKey, body: object, signal?: AbortSignal): Promise<Response>
  /** Resolves when the server knows of so many hang-ups in all. */
  hungUp(count: number): Promise<void>
  /** Resolves when no request is open and no charge on its way. */
  idle(): Promise<void>
  /** Returns the charges of a customer so far, oldest first. */
  charges(key: TestKey): Promise<ChargeSeen[]>
  close(): Promise<void>
}

const PROMPT = [{ role: 'user', content: 'Hello' }]

/** One model, `svc/stepped`, at the provider's address: 1 cent a token in and 2 out. One open request a key. */
export function openPort(providerUrl: string, clock: Clock = systemClock): Promise<OpenPort> {
  return openPortWith(settingsFor(providerUrl), clock)
}

/** Bytes of a request, as much as the settings of any test allow. */
const MAX_BODY_BYTES = 64 << 20

/** The same with the settings of the test. */
export async function openPortWith(settings: string, clock: Clock = systemClock): Promise<OpenPort> {
  const gateway = await openGateway({ settings, clock })
  let hangUps = 0
  const waiting: (() => void)[] = []
  const server = listen({
    host: '127.0.0.1',
    port: 0,
    maxBodyBytes: MAX_BODY_BYTES,
    handle: (request, peer) => {
      request.signal.addEventListener('abort', () => {
        hangUps += 1
        for (const wake of waiting.splice(0)) wake()
      })
      return gateway.app.handle(request, peer)
    },
    onError: () => new Response(null, { status: 500 }),
  })
  const send: OpenPort['send'] = ({ key }, path, body, signal) =>
    fetch(`http://127.0.0.1:${server.port}/v1${path}`, {
      method: 'POST',
      headers: { Authorization: `Bearer ${key}` },
      body: JSON.stringify(body),
      ...(signal === undefined ? {} : { signal }),
    })
  return {
    gateway,
    port: server.port,
    send,
    chat: (key, body, signal) =>
      send(key, '/chat/completions', { model: 'svc/stepped', messages: PROMPT, ...body }, signal),
    async hungUp(count) {
      while (hangUps < count) await new Promise<void>((resolve) => waiting.push(resolve))
    },
    async idle() {
      await until(async () => {
        const { app } = gateway
        return (await metric(app, 'open_requests')) === 0 && (await metric(app, 'unposted_charges')) === 0
      })
    },
    charges: ({ organizationId }) => readCharges(gateway, organizationId),
    async close() {
      await server.kill()
      await gateway.close()
    },
  }
}

function settingsFor(providerUrl: string): string {
  return `
open_requests_per_key: 1
providers:
  stepped: { dialect: openai, base_url: "${providerUrl}" }
models:
  - id: svc/stepped
    context_length: 100000000
    pricing: { input_per_1m_tokens_cents: 1000000, output_per_1m_tokens_cents: 2000000 }
    targets: [{ provider: stepped, model: stepped }]
`
}

async function readCharges(gateway: Gateway, organizationId: string): Promise<ChargeSeen[]> {
  const rows = await gateway.database.query<{
    outcome: string
    estimated: boolean
    prompt_tokens: bigint
    completion_tokens: bigint
  }>(
    `select outcome, estimated, prompt_tokens, completion_tokens from named_charges
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
