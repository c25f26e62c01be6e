/** Real processes that share an account, one of which is killed: each notice is mailed once all the same. */

import { afterAll, beforeAll, expect, test } from 'bun:test'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { certificateFor } from '../../../test/certificate.ts'
import { type MailServer, openMailServer } from '../../../test/mailServer.ts'
import { startRedis, type TestRedis } from '../../../test/redis.ts'
import { startServer, type TestServer } from '../../../test/server.ts'

const LIMIT_MS = 180_000
const CALLS = 40
const PASSWORD = 'canary-mail-password'

let mails: MailServer
let redis: TestRedis
let server: TestServer
let key: string
let environment: Record<string, string>
let folder: string
beforeAll(async () => {
  const tls = await certificateFor('localhost')
  mails = await openMailServer({ tls, login: { user: 'tollgate', password: PASSWORD } })
  folder = await mkdtemp(join(tmpdir(), 'notices-'))
  const root = join(folder, 'root.pem')
  await writeFile(root, tls.cert)
  redis = await startRedis()
  environment = { TOLLGATE_PROCESSES: '2', REDIS_URL: redis.url, NODE_EXTRA_CA_CERTS: root, SMTP_PASSWORD: PASSWORD }
  const settings = `
low_balance_cents: 2400
smtp: { host: localhost, port: ${mails.port}, user: tollgate, password_env: SMTP_PASSWORD, from: billing@tollgate.test }
providers:
  box: { dialect: sandbox, first_token_ms: 20, tokens_per_second: unlimited }
models:
  - id: svc/dear
    context_length: 4096
    pricing: { input_per_1m_tokens_cents: 1000000, output_per_1m_tokens_cents: 1000000 }
    targets: [{ provider: box, model: any }]
`
  server = await startServer({ settings, environment })
  key = server.firstKey
  await server.command('orgs', 'update', 'default', '--notify', 'ops@example.com')
}, LIMIT_MS)
afterAll(async () => {
  await server.remove()
  await mails.close()
  await redis.kill()
  await rm(folder, { recursive: true, force: true })
}, LIMIT_MS)

/** Fourteen cents, on a connection of its own, so that the system spreads them; the status, or 0. */
async function call(method = 'POST', path = '/chat/completions', body: object = FOURTEEN_CENTS): Promise<number> {
  try {
    const response = await fetch(`${server.url}${path}`, {
      method,
      headers: { Authorization: `Bearer ${key}`, Connection: 'close' },
      body: JSON.stringify(body),
    })
    await response.text()
    return response.status
  } catch {
    return 0
  }
}

const FOURTEEN_CENTS = {
  model: 'svc/dear',
  max_tokens: 4,
  messages: [{ role: 'user', content: '[[sandbox prompt_tokens=10 tokens=4]]' }],
}

test(
  'a limit and a low balance are mailed once, whoever passes them, with a kill and a restart in between',
  async () => {
    const limit = { monthly_limit_dollars: 20, daily_limit_dollars: 0.5, enforcement: 'notify_only' }
    expect(await call('PUT', '/billing/spending-limit', limit)).toBe(200)
    const first = await Promise.all(Array.from({ length: CALLS }, () => call()))
    expect(new Set(first)).toEqual(new Set([200]))
    await mails.arrived(2)
    const racing = Array.from({ length: CALLS }, () => call())
    await Promise.race(racing)
    await server.kill()
    await Promise.all(racing)
    server = await startServer({
      dataDir: server.dataDir,
      settings: await Bun.file(`${server.dataDir}/tollgate.yaml`).text(),
      environment,
    })
    // The share of the killed process is free a minute after the database's start at the latest.
    while ((await call()) !== 200) await new Promise((resolve) => setTimeout(resolve, 1_000))
    expect(new Set(await Promise.all(Array.from({ length: CALLS }, () => call())))).toEqual(new Set([200]))
    // Drained, so that all spend under way has been folded and all notices are mailed.
    expect(await server.stop()).toBe(0)
    const texts = mails.mails.map(({ text }) => text)
    expect(texts.filter((text) => text.includes('has reached its daily spending limit'))).toHaveLength(1)
    expect(texts.filter((text) => text.includes('credit balance of "default" is low'))).toHaveLength(1)
    expect(texts).toHaveLength(2)
    expect(server.errors()).not.toContain(PASSWORD)
  },
  LIMIT_MS,
)
