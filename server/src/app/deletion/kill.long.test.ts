/**
 * The real server is killed (SIGKILL) at several moments after an organization is deleted. The next start ends what is left: the
 * subscription is cancelled at the payment provider, the checkout is ended, names are erased.
 */

import { afterAll, beforeAll, expect, test } from 'bun:test'
import { join } from 'node:path'
import { startServer, type TestServer } from '../../../test/server.ts'
import { systemClock } from '../../infra/clock.ts'
import type { Database } from '../../infra/postgres/database.ts'
import { openDatabase } from '../../infra/postgres/open.ts'

const LIMIT_MS = 240_000

const SETTINGS = `
payments: { provider: local }
providers:
  slow: { dialect: sandbox, video_seconds_per_second: 0.01 }
models:
  - id: svc/film
    modality: video
    pricing: { per_video_second_cents: 1 }
    parameters: [{ name: seconds, type: int, min: 1, max: 8, default: 1 }]
    targets: [{ provider: slow, model: sandbox }]
plans:
  - { key: small, name: Small, input_tokens_monthly: 1000, output_tokens_monthly: 1000, weekly_tokens: 1000, payment_price: local_2000_month }
`

let server: TestServer
beforeAll(async () => {
  server = await startServer({ settings: SETTINGS })
}, LIMIT_MS)
afterAll(() => server.remove(), LIMIT_MS)

async function post(path: string, key: string, body: object) {
  const response = await fetch(new URL(path, server.url), {
    method: 'POST',
    headers: { Authorization: `Bearer ${key}`, 'Content-Type': 'application/json' },
    body: JSON.stringify(body),
  })
  expect([path, response.status < 300]).toEqual([path, true])
  return response.json()
}

/** An organization with a subscription, an open checkout and a video under way; returns its id. */
async function made(name: string): Promise<string> {
  const { id } = await server.command('orgs', 'create', name)
  await server.command('credits', 'grant', '--org', name, '--usd', '5')
  const granted = ['--name', `canary ${name}`, '--scope', 'full_access', '--admin']
  const { key } = await server.command('keys', 'create', '--org', name, ...granted)
  const { checkout_url: url } = await post('/v1/billing/subscription/checkout', String(key), {})
  const form = new FormData()
  form.set('card', 'succeeds')
  await (await fetch(url, { method: 'POST', body: form, redirect: 'manual' })).text()
  await post('/manage/v1/top-ups', String(key), { amount_cents: 1_500 })
  await post('/v1/videos', String(key), { model: 'svc/film', prompt: `canary ${name}`, seconds: 4 })
  return String(id)
}

/** Asks the database of the data directory, whether a server runs on it or not. */
async function asked<T>(ask: (database: Database) => Promise<T>): Promise<T> {
  const { dataDir } = server
  const parts = { databaseUrl: null, clock: systemClock, role: 'command', log: () => {}, onLost: () => {} } as const
  const opened = await openDatabase({ dataDir, ...parts })
  try {
    return await ask(opened.database)
  } finally {
    await opened.release()
  }
}

/** The work that is left about an organization that is deleted. */
const left = (id: string) =>
  asked(async (database) => {
    const count = async (text: string) => (await database.query(text, [id])).length
    return {
      subscriptions: await count(
        `select 1 from payment_subscriptions s join local_payment_objects o on o.id = s.subscription
         where organization_id = $1 and o.body ->> 'status' <> 'canceled'`,
      ),
      checkouts: await count("select 1 from payments where organization_id = $1 and state = 'open'"),
      erasures: await count("select 1 from jobs where organization_id = $1 and unique_key = 'now' and state <> 'done'"),
      videos: await count("select 1 from videos where organization_id = $1 and status <> 'cancelled'"),
      names: await count("select 1 from api_keys t where organization_id = $1 and t::text like '%canary%'"),
    }
  })

const NOTHING = { subscriptions: 0, checkouts: 0, erasures: 0, videos: 0, names: 0 }

test.each([0, 200, 5_000])(
  'killed %p ms after the deletion: the next start ends what is left',
  async (waitMs) => {
    const id = await made(`org ${waitMs}`)
    const config = ['--config', join(server.dataDir, 'tollgate.yaml')]
    await server.command('orgs', 'delete', `org ${waitMs}`, '--confirm', `org ${waitMs}`, ...config)
    await Bun.sleep(waitMs)
    await server.kill()
    const before = await left(id)
    // First the part that commits with the deletion, then the part that a server does later.
    expect(before).toMatchObject({ videos: 0, names: 0 })
    if (waitMs === 0) expect(before).toMatchObject({ subscriptions: 1, checkouts: 1 })
    server = await startServer({ settings: SETTINGS, dataDir: server.dataDir })
    let after = await left(id)
    for (let looks = 0; looks < 120 && JSON.stringify(after) !== JSON.stringify(NOTHING); looks += 1) {
      await Bun.sleep(500)
      after = await left(id)
    }
    expect(after).toEqual(NOTHING)
    expect(await server.command('ledger', 'verify')).toMatchObject({ agrees: true })
  },
  LIMIT_MS,
)
