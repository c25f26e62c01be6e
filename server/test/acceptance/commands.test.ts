/** Every operator's command through the real binary, while the server runs and while it does not. */

import { afterAll, beforeAll, expect, setDefaultTimeout, test } from 'bun:test'
import { startServer, type TestServer } from '../server.ts'
import { type Ended, typeCommand } from './terminal.ts'

// Each command without a server starts PostgreSQL and stops it.
setDefaultTimeout(120_000)

let server: TestServer

beforeAll(async () => {
  server = await startServer()
})
afterAll(() => server?.remove())

/** Runs a command and holds it to `--json`: one document on stdout, nothing else, and nothing on stderr. */
async function json(...words: string[]): Promise<unknown> {
  const { code, stdout, stderr } = await type(...words, '--json')
  expect([code, stderr]).toEqual([0, ''])
  return JSON.parse(stdout)
}

const type = (...words: string[]): Promise<Ended> =>
  typeCommand(words, { folder: server.dataDir, environment: { TOLLGATE_DATA_DIR: server.dataDir } }).ended

async function everyCommand(name: string): Promise<string> {
  expect(await json('orgs', 'create', name)).toMatchObject({ name })
  expect(await json('orgs', 'list')).toEqual(expect.arrayContaining([expect.objectContaining({ name })]))
  expect(await json('credits', 'grant', '--org', name, '--usd', '50')).toMatchObject({ org: name, amount_usd: '50.00' })
  const made = (await json('keys', 'create', '--org', name, '--scope', 'serverless:write,billing:read')) as Record<
    string,
    string
  >
  expect(made).toMatchObject({ org: name, scopes: 'serverless:write,billing:read' })
  expect(made['key']).toMatch(/^svc_live_[0-9A-Za-z]{24}$/)
  expect(await json('keys', 'list')).toEqual(expect.arrayContaining([expect.objectContaining({ id: made['id'] })]))
  expect(await json('migrate')).toEqual({ applied: [] })
  expect(await json('config', 'check')).toMatchObject({ ok: true, database: 'embedded' })
  expect(await json('models', 'list')).toMatchObject([
    { id: 'svc/sandbox' },
    { id: 'svc/sandbox-embedding' },
    { id: 'svc/sandbox-image' },
    { id: 'svc/sandbox-video' },
  ])
  const doomed = (await json('keys', 'create', '--org', name, '--scope', 'read_only')) as { id: string }
  expect(await json('keys', 'revoke', doomed.id)).toMatchObject({ id: doomed.id })
  return made['key'] ?? ''
}

const balanceOf = async (key: string) => {
  const answer = await fetch(`${server.url}/billing/balance`, { headers: { Authorization: `Bearer ${key}` } })
  return [answer.status, ((await answer.json()) as { balance_cents?: number }).balance_cents]
}

test('while the server runs: what they do is in force', async () => {
  const key = await everyCommand('running')
  expect(await balanceOf(key)).toEqual([200, 5_000])
  const keys = (await json('keys', 'list')) as { id: string; org: string; state: string }[]
  const id = keys.find(({ org, state }) => org === 'running' && state === 'active')?.id ?? ''
  expect(await json('keys', 'revoke', id)).toMatchObject({ id })
  // The server hears of it by itself, within the moment that PostgreSQL takes to tell.
  while ((await balanceOf(key))[0] !== 401);
})

test('while it does not: the next start knows of it, and SIGTERM before that ended it with exit code 0', async () => {
  expect(await server.stop()).toBe(0)
  const key = await everyCommand('stopped')
  server = await startServer({ dataDir: server.dataDir })
  expect(server.firstKey).toBe('')
  expect(await balanceOf(key)).toEqual([200, 5_000])
})

test('a mistake is one JSON document on stderr, and nothing on stdout', async () => {
  for (const [words, code] of [
    [['orgs', 'create', 'default'], 1],
    [['keys', 'create', '--org', 'nobody', '--scope', 'full_access'], 1],
    [['keys', 'create', '--org', 'default', '--scope', 'everything'], 2],
    [['credits', 'grant', '--org', 'default', '--usd', '-1'], 2],
    [['keys', 'revoke', 'not-an-id'], 1],
    [['srve'], 2],
  ] as const) {
    const ended = await type(...words, '--json')
    expect({ words, code: ended.code, stdout: ended.stdout }).toEqual({ words, code, stdout: '' })
    expect(JSON.parse(ended.stderr)).toMatchObject({ error: { message: expect.any(String) } })
  }
})
