/** The settings file changed under a running server: it looks each second, and at once on SIGHUP. */

import { afterAll, beforeAll, expect, setDefaultTimeout, test } from 'bun:test'
import { mkdtemp, rename, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import OpenAI from 'openai'
import { systemClock } from '../../src/infra/clock.ts'
import type { Database } from '../../src/infra/postgres/database.ts'
import { sleep } from '../../src/lib/time.ts'
import { openDirectory } from '../dataDirectory.ts'
import { startServer, type TestServer } from '../server.ts'

setDefaultTimeout(60_000)

let server: TestServer
let database: Database
let client: OpenAI

/** One model at so many cents per million tokens, in and out, and whatever else. */
const settings = (cents: number, more = '') => `
providers:
  slow: { dialect: sandbox, first_token_ms: 0, tokens_per_second: 20 }
models:
  - id: svc/priced
    context_length: 8192
    pricing: { input_per_1m_tokens_cents: ${cents}, output_per_1m_tokens_cents: ${cents} }
    targets: [{ provider: slow, model: slow }]
${more}`

/** Without the provider that the first settings had. */
const WITHOUT_SLOW = (cents: number) => settings(cents).replaceAll('slow', 'quick').replace('20 }', 'unlimited }')

beforeAll(async () => {
  server = await startServer({ settings: settings(100) })
  database = await openDirectory(server.dataDir)
  client = new OpenAI({ baseURL: server.url, apiKey: server.firstKey })
})
afterAll(async () => {
  await database?.close()
  await server?.remove()
})

/** As an editor that is careful does it. */
async function change(text: string): Promise<void> {
  await writeFile(join(server.dataDir, 'next.yaml'), text)
  await rename(join(server.dataDir, 'next.yaml'), join(server.dataDir, 'tollgate.yaml'))
}

async function until(isSo: () => boolean | Promise<boolean>, what: string): Promise<void> {
  for (let tries = 0; tries < 200; tries += 1) {
    if (await isSo()) return
    await sleep(systemClock, 100)
  }
  throw new Error(`never: ${what}\n${server.errors()}`)
}

const priceOf = async () =>
  ((await client.models.retrieve('svc/priced')) as { pricing?: { input_per_1m_tokens_cents?: number } }).pricing
    ?.input_per_1m_tokens_cents

const ask = (content: string) => ({ model: 'svc/priced', messages: [{ role: 'user' as const, content }] })

/** Cost per token of each charge, oldest first: what it was priced at, in cents per million. */
async function pricesCharged(): Promise<bigint[]> {
  const rows = await database.query<{ cost: bigint; tokens: bigint }>(
    `select cost_microcents as cost, prompt_tokens + completion_tokens as tokens from named_charges order by admitted_at, id`,
  )
  return rows.map(({ cost, tokens }) => cost / tokens)
}

test('a stream under way ends well at its own price and provider, while new calls meet the new ones', async () => {
  // 60 tokens at 20 a second: longer than the server takes to notice.
  const stream = await client.chat.completions.create({ ...ask('[[sandbox tokens=60]] go'), stream: true })
  let tokens = 0
  let finish: string | null | undefined = null
  let changing: Promise<void> | null = null
  for await (const chunk of stream) {
    if ((chunk.choices[0]?.delta.content ?? '') !== '') tokens += 1
    finish = chunk.choices[0]?.finish_reason ?? finish
    changing ??= change(WITHOUT_SLOW(700)).then(async () => {
      await until(async () => (await priceOf()) === 700, 'the new price')
      await client.chat.completions.create(ask('a new call'))
    })
  }
  await changing
  expect([tokens, finish]).toEqual([60, 'stop'])
  expect(await pricesCharged()).toEqual([100n, 700n])
})

test('a bad change is refused with its line, and what was offered before stays; the next good one is taken', async () => {
  await change(settings(800, '    context_lenght: 1\n'))
  await until(() => server.errors().includes("did you mean 'context_length'?"), 'the refusal in the log')
  const told = server.errors().match(/tollgate\.yaml:\d+:\d+: models\[0\]\.context_lenght/)
  expect(told).not.toBeNull()
  expect(await priceOf()).toBe(700)
  await client.chat.completions.create(ask('still served'))
  await change(
    settings(
      900,
      '  - id: svc/second\n    context_length: 10\n    status: coming_soon\n    pricing: { input_per_1m_tokens_cents: 1, output_per_1m_tokens_cents: 1 }\n',
    ),
  )
  await until(async () => (await priceOf()) === 900, 'the good change')
  const ids = (await client.models.list()).data.map(({ id }) => id)
  expect(ids).toEqual(['svc/priced', 'svc/second'])
})

test('SIGHUP has the file read at once, and never ends the server', async () => {
  const countRead = () => server.errors().split('the changed settings are in effect').length
  const before = countRead()
  await change(settings(1_000))
  server.process.kill('SIGHUP')
  await until(() => countRead() === before + 1, 'the change')
  expect(await priceOf()).toBe(1_000)
  server.process.kill('SIGHUP')
  await client.chat.completions.create(ask('after a second SIGHUP'))
  expect((await pricesCharged()).at(-1)).toBe(1_000n)
  expect(await server.stop()).toBe(0)
})

test('a file that is made in the folder of a server without one is read, and the log names what needs a restart', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'tollgate-test-'))
  const bare = await startServer({ wrapper: ['env', '-C', folder] })
  try {
    const models = new OpenAI({ baseURL: bare.url, apiKey: bare.firstKey }).models
    const ids = async () => (await models.list()).data.map(({ id }) => id)
    expect(await ids()).toContain('svc/sandbox')
    await writeFile(join(folder, 'tollgate.yaml'), settings(100, 'accounts:\n'))
    await until(async () => (await ids()).join() === 'svc/priced', 'the new file is in effect')
    await until(() => /accounts.*take effect with a restart only/.test(bare.errors()), 'the log names accounts')
  } finally {
    await bare.remove()
    await rm(folder, { recursive: true, force: true })
  }
})
