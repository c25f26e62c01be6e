/** All that a gateway asks its database: calls of customers, and what it does by itself in a day. */

import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Database } from '../../src/infra/postgres/database.ts'
import { DAY_MS, HOUR_MS, MINUTE_MS, utcDay } from '../../src/lib/time.ts'
import { TurnedClock, turnUntil } from '../../test/clock.ts'
import { type Gateway, openGateway, type TestKey } from '../../test/gateway.ts'
import { FILLED_MODELS, FILLED_PRICE, keyOfOrganization, organizationId } from './books.ts'

/** Organizations that call, each of which does everything. */
const CALLING = 4
const CHAT = { model: `svc/${FILLED_MODELS[0]}`, messages: [{ role: 'user', content: 'Hello.' }], max_tokens: 8 }
const VIDEO = { model: 'svc/clip', prompt: 'a hill', seconds: 2, size: '320x180' }

const LISTS = [
  '/models',
  `/inference/preflight?model=${CHAT.model}`,
  '/usage',
  '/usage?bucket=hour',
  '/billing/balance',
  '/videos',
  '/webhook-endpoints',
  '/billing/subscription',
  '/manage/v1/usage',
  '/manage/v1/charges',
  '/manage/v1/ledger',
  '/manage/v1/organization',
  '/manage/v1/members',
  '/manage/v1/limits',
  '/manage/v1/keys',
  '/manage/v1/audit',
  '/manage/v1/notices',
  '/manage/v1/deliveries',
]

/** A filled database, for a gateway in this process. */
export interface Books {
  readonly databaseUrl: string
  readonly database: Database
  /** The end of the books. */
  readonly nowMs: number
  /** The key that earlier gateways encrypted with, in hexadecimal digits; left out: there was no earlier one. */
  readonly dataKey?: string
}

/** A gateway in this process on a filled database, from its start over a day to its end. */
export async function workForADay({ databaseUrl, database, nowMs, ...given }: Books): Promise<void> {
  const clock = new TurnedClock(nowMs)
  const dataDirectory = await mkdtemp(join(tmpdir(), 'tollgate-plans-'))
  const gateway = await openGateway({ clock, settings: settings(), beside: { databaseUrl, dataDirectory }, ...given })
  /** Lets minutes pass, and waits after each for what the gateway asks meanwhile. */
  const pass = async (totalMs: number, stepMs: number) => {
    for (let passedMs = 0; passedMs < totalMs; passedMs += stepMs) {
      await clock.turn(stepMs)
      await quiet(database)
    }
    // A minute that passes at once makes a gateway take its connections for dead, and open others.
    let isReady = false
    const look = async () => {
      await quiet(database)
      const { status } = await gateway.app.handleAdmin(new Request('http://gateway.test/ready'))
      isReady = status === 200
    }
    await turnUntil(clock, () => isReady, look)
  }
  try {
    for (let n = 1; n <= CALLING; n += 1) await useAll(gateway, n, nowMs, () => pass(1_000, 100))
    await pass(4 * MINUTE_MS, MINUTE_MS)
    // After minutes without any call: what was given back is asked for again.
    for (let n = 1; n <= CALLING; n += 1) await chat(gateway, n)
    await pass(3 * HOUR_MS, 15 * MINUTE_MS)
  } finally {
    await gateway.close()
    await rm(dataDirectory, { recursive: true, force: true })
  }
}

async function useAll(gateway: Gateway, n: number, nowMs: number, pass: () => Promise<void>): Promise<void> {
  const key = keyOf(n)
  await chat(gateway, n)
  await expectOk(gateway.post(key, '/chat/completions', CHAT, { 'Idempotency-Key': `plans-${n}` }))
  const endpoint = { url: 'https://receiver.test/hook', event_types: ['video.completed', 'video.failed'] }
  await expectOk(gateway.post(key, '/webhook-endpoints', endpoint, { 'Idempotency-Key': `endpoint-${n}` }))
  const video = await expectOk(gateway.post(key, '/videos', VIDEO))
  const { id } = (await video.json()) as { readonly id: string }
  await expectOk(gateway.get(key, `/videos/${id}`))
  await expectOk(gateway.post(key, `/videos/${id}/cancel`, {}))
  const exported = `/manage/v1/charges/export?start=${utcDay(nowMs - 3 * DAY_MS)}&end=${utcDay(nowMs)}`
  for (const path of [...LISTS, exported]) await (await expectOk(gateway.get(key, path))).text()
  await pass()
}

async function chat(gateway: Gateway, n: number): Promise<void> {
  await (await expectOk(gateway.post(keyOf(n), '/chat/completions', CHAT))).text()
}

function keyOf(n: number): TestKey {
  return { id: '', key: keyOfOrganization(n), organizationId: organizationId(n) }
}

async function expectOk(asking: Promise<Response>): Promise<Response> {
  const answer = await asking
  if (answer.ok) return answer
  throw new Error(`${answer.status}: ${await answer.text()}`)
}

/** Resolves when the database has had nothing to do twice in a row. */
async function quiet(database: Database): Promise<void> {
  for (let seen = 0; seen < 2; ) {
    const [row] = await database.query<{ busy: bigint }>(
      `select count(*) as busy from pg_stat_activity
       where datname = current_database() and pid <> pg_backend_pid() and state <> 'idle'`,
      [],
    )
    seen = row?.busy === 0n ? seen + 1 : 0
  }
}

function settings(): string {
  const pricing = {
    input_per_1m_tokens_microcents: Number(FILLED_PRICE.inputMicrocents),
    output_per_1m_tokens_microcents: Number(FILLED_PRICE.outputMicrocents),
  }
  const chatModels = FILLED_MODELS.map((model) => ({
    id: `svc/${model}`,
    ...{ context_length: 131_072, max_output_tokens: 16_384, pricing },
    targets: [{ provider: 'sandbox', model: 'sandbox' }],
  }))
  return JSON.stringify({
    providers: { sandbox: { dialect: 'sandbox', first_token_ms: 0, tokens_per_second: 'unlimited' } },
    models: [
      ...chatModels,
      {
        id: 'svc/clip',
        modality: 'video',
        parameters: [
          { name: 'seconds', type: 'int', min: 1, max: 8, default: 4 },
          { name: 'size', type: 'enum', enum: [VIDEO.size], default: VIDEO.size },
        ],
        pricing: { per_video_second_cents: 1 },
        targets: [{ provider: 'sandbox', model: 'sandbox' }],
      },
    ],
    accounts: {},
  })
}
