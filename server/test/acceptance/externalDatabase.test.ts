/** Over a PostgreSQL of the operator's own, named by DATABASE_URL. */

import { afterAll, beforeAll, expect, setDefaultTimeout, test } from 'bun:test'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import OpenAI from 'openai'
import { type FreshDatabase, freshDatabase } from '../postgres.ts'
import { startServer, type TestServer } from '../server.ts'
import { typeCommand } from './terminal.ts'

setDefaultTimeout(60_000)

let fresh: FreshDatabase
let server: TestServer

beforeAll(async () => {
  fresh = await freshDatabase()
  server = await startServer({ environment: { DATABASE_URL: fresh.url } })
})
afterAll(async () => {
  await server?.remove()
  await fresh?.drop()
})

const type = (words: readonly string[], url = fresh.url) => {
  const flags = ['--data-dir', server.dataDir]
  return typeCommand([...words, ...flags], { folder: server.dataDir, environment: { DATABASE_URL: url } }).ended
}

async function call(key: string): Promise<void> {
  const client = new OpenAI({ baseURL: server.url, apiKey: key })
  const messages = [{ role: 'user' as const, content: 'hello' }]
  const answer = await client.chat.completions.create({ model: 'svc/sandbox', messages, max_tokens: 5 })
  expect(answer.usage?.completion_tokens).toBe(5)
}

const chargesPosted = async () =>
  (await fresh.database.query<{ count: bigint }>('select count(*) as count from charges'))[0]?.count

test('the first start makes a key that works, charges go there, and no server of our own is started', async () => {
  await call(server.firstKey)
  expect(await chargesPosted()).toBe(1n)
  expect(existsSync(join(server.dataDir, 'postgres'))).toBe(false)
})

test('commands reach it, and what they do is in force at once', async () => {
  const made = await type(['keys', 'create', '--org', 'default', '--scope', 'serverless:write', '--json'])
  const { id, key } = JSON.parse(made.stdout)
  await call(key)
  expect((await type(['keys', 'revoke', id, '--json'])).code).toBe(0)
  // The server hears of it from the database: a call that is quicker than that message may still pass.
  const calls = async () => {
    for (let count = 1; count <= 50; count += 1) await call(key)
  }
  await expect(calls()).rejects.toMatchObject({ status: 401 })
})

test('a second server on the same data directory is refused in one sentence', async () => {
  const { code, stdout, stderr } = await type(['serve', '--port', '0', '--admin-port', '0'])
  expect([code, stdout]).toEqual([1, ''])
  expect(stderr).toMatch(/^tollgate: Another Tollgate server already serves from the data directory .*\.\n$/)
})

test('a wrong password and a missing database are said plainly, without the password', async () => {
  const wrong = new URL(fresh.url)
  wrong.password = 'hidden'
  const missing = new URL(fresh.url)
  missing.pathname = '/no_such_database'
  for (const [url, expected] of [
    [wrong, /password authentication failed/],
    [missing, /database "no_such_database" does not exist/],
  ] as const) {
    const { code, stdout, stderr } = await type(['orgs', 'list'], url.toString())
    expect([code, stdout]).toEqual([1, ''])
    expect(stderr).toMatch(expected)
    expect(stderr).toContain('DATABASE_URL')
    expect(stderr).not.toContain('hidden')
    expect(stderr.trim().split('\n')).toHaveLength(1)
  }
})

test('a role that only owns its database is enough, for migrations too; a superuser is warned of in one line', async () => {
  const warning = /the role in DATABASE_URL is a superuser/g
  expect(server.errors().match(warning)).toHaveLength(1)
  expect(server.errors().match(/Tollgate runs as root/g) ?? []).toHaveLength(process.getuid?.() === 0 ? 1 : 0)
  // As docs/operating.md has it.
  const name = `owned_${new URL(fresh.url).pathname.slice(-16)}`
  await fresh.database.query(`create role ${name} login password 'its-own'`)
  await fresh.database.query(`create database ${name} owner ${name}`)
  const url = new URL(fresh.url)
  Object.assign(url, { username: name, password: 'its-own', pathname: `/${name}` })
  const own = await startServer({ environment: { DATABASE_URL: url.toString() } })
  try {
    const client = new OpenAI({ baseURL: own.url, apiKey: own.firstKey })
    const messages = [{ role: 'user' as const, content: 'hello' }]
    expect(
      (await client.chat.completions.create({ model: 'svc/sandbox', messages })).usage?.total_tokens,
    ).toBePositive()
    expect(own.errors()).not.toMatch(warning)
  } finally {
    await own.remove()
    await fresh.database.query(`drop database ${name} with (force)`)
    await fresh.database.query(`drop role ${name}`)
  }
})

test('a command that was not given DATABASE_URL makes no database in the data directory', async () => {
  const { code, stdout, stderr } = await type(['orgs', 'list'], '')
  expect([code, stdout]).toEqual([1, ''])
  expect(stderr).toMatch(/^tollgate: there is no database in .*: set DATABASE_URL if your server has it/)
  expect(existsSync(join(server.dataDir, 'postgres'))).toBe(false)
})

test('without sslmode nothing is sent to a database on another host', async () => {
  const { code, stdout, stderr } = await type(['orgs', 'list'], 'postgres://tollgate:hidden@db.example:5432/tollgate')
  expect([code, stdout]).toEqual([1, ''])
  expect(stderr).toMatch(/^tollgate: DATABASE_URL: is on another host, .* append \?sslmode=verify-full .*\n$/)
  expect(stderr).not.toContain('hidden')
})

test('stopped and started again, it goes on where it was', async () => {
  const { firstKey, dataDir } = server
  const before = await chargesPosted()
  expect(await server.stop()).toBe(0)
  server = await startServer({ dataDir, environment: { DATABASE_URL: fresh.url } })
  expect(server.firstKey).toBe('')
  await call(firstKey)
  expect(await chargesPosted()).toBe((before ?? 0n) + 1n)
})
