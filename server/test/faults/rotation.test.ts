/** A rotation of the data key that is killed in its middle, beside a server that goes on answering. */

import { afterAll, beforeAll, expect, setDefaultTimeout, test } from 'bun:test'
import { type ChildProcess, spawn } from 'node:child_process'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { systemClock } from '../../src/infra/clock.ts'
import type { Database } from '../../src/infra/postgres/database.ts'
import { systemRandom } from '../../src/infra/random.ts'
import { uuidV7 } from '../../src/lib/ids.ts'
import { seal, unseal } from '../../src/lib/seal.ts'
import { openDirectory } from '../dataDirectory.ts'
import { startServer, type TestServer } from '../server.ts'

setDefaultTimeout(180_000)

const COMMAND = join(import.meta.dirname, '../../../tollgate')
/** Enough batches that a kill meets one of them. */
const VALUES = 4_000
const TEXT = 'a kept answer'
const random = systemRandom()

let server: TestServer
let database: Database
let key: string
beforeAll(async () => {
  server = await startServer()
  key = server.firstKey
  database = await openDirectory(server.dataDir)
})
afterAll(async () => {
  await database.close()
  await server.remove()
})

const keyFile = () => join(server.dataDir, 'data.key')
const keysOfFile = async () => (await readFile(keyFile(), 'utf8')).trim().split('\n')

/** One call with an Idempotency-Key; the bytes of its answer. */
async function ask(idempotencyKey: string): Promise<{ text: string; isReplay: boolean }> {
  const response = await fetch(`${server.url}/chat/completions`, {
    method: 'POST',
    headers: {
      Authorization: `Bearer ${key}`,
      'Content-Type': 'application/json',
      'Idempotency-Key': idempotencyKey,
    },
    body: JSON.stringify({ model: 'svc/sandbox', max_tokens: 5, messages: [{ role: 'user', content: 'hello' }] }),
  })
  expect(response.status).toBe(200)
  return { text: await response.text(), isReplay: response.headers.get('idempotency-replayed') === 'true' }
}

/** Puts kept answers into the database, sealed with the key that is in use. */
async function keepMany(): Promise<void> {
  const [hex = ''] = await keysOfFile()
  const dataKey = new Uint8Array(Buffer.from(hex, 'hex'))
  for (let value = 0; value < VALUES; value += 1) {
    const attempt = uuidV7(systemClock.now(), random)
    const body = seal(dataKey, { kind: 'tollgate kept answer', name: attempt }, Buffer.from(TEXT), random)
    await database.query(
      `insert into idempotent_attempts
         (key_id, key_hash, fingerprint, attempt, slot, expires_at, organization_id, status, body, body_bytes, data_key)
       values ($1::uuid, $2::bytea, $2::bytea, $1::uuid, 0, now() + interval '1 day', $1::uuid, 200, $3::bytea, $4::bigint, 1)`,
      [attempt, new Uint8Array(32), body, TEXT.length],
    )
  }
}

async function countsByKey(): Promise<ReadonlyMap<number, number>> {
  const rows = await database.query<{ data_key: number; count: bigint }>(
    'select data_key, count(*) as count from idempotent_attempts where status is not null group by data_key',
  )
  return new Map(rows.map(({ data_key, count }) => [data_key, Number(count)]))
}

/** Every kept answer that was put there opens with the key that its row names. */
async function expectAllOpen(keys: ReadonlyMap<number, string>): Promise<void> {
  const rows = await database.query<{ attempt: string; data_key: number; body: Uint8Array }>(
    "select attempt, data_key, body from idempotent_attempts where status is not null and key_hash = decode(repeat('00', 32), 'hex')",
  )
  expect(rows.length).toBe(VALUES)
  for (const { attempt, data_key, body } of rows) {
    const dataKey = new Uint8Array(Buffer.from(keys.get(data_key) ?? '', 'hex'))
    const opened = unseal(dataKey, { kind: 'tollgate kept answer', name: attempt }, body)
    expect(Buffer.from(opened).toString()).toBe(TEXT)
  }
}

function rotate(): ChildProcess {
  return spawn(COMMAND, ['data-key', 'rotate', '--data-dir', server.dataDir], {
    stdio: 'ignore',
    env: { ...process.env, DATABASE_URL: '' },
  })
}

test('a rotation that is killed leaves every value open, and goes on; the former key is gone in the end', async () => {
  await keepMany()
  const first = await ask('before')
  const [former = ''] = await keysOfFile()

  const killed = rotate()
  const ended = new Promise((resolve) => killed.once('exit', resolve))
  while (((await countsByKey()).get(2) ?? 0) === 0 && killed.exitCode === null);
  killed.kill('SIGKILL')
  await ended
  const between = await countsByKey()
  expect(between.get(1)).toBeGreaterThan(0)
  expect(between.get(2)).toBeGreaterThan(0)
  const [, news = ''] = await keysOfFile()
  await expectAllOpen(
    new Map([
      [1, former],
      [2, news],
    ]),
  )
  expect(await ask('before')).toEqual({ text: first.text, isReplay: true })
  const second = await ask('between')

  const done = await server.command('data-key', 'rotate')
  expect(done).toMatchObject({ not_opened: 0, keys_left: 0 })
  expect([...(await countsByKey()).keys()]).toEqual([2])
  expect(await keysOfFile()).toEqual([news])
  await expectAllOpen(new Map([[2, news]]))
  for (const [name, { text }] of [
    ['before', first],
    ['between', second],
  ] as const)
    expect(await ask(name)).toEqual({ text, isReplay: true })

  // The next start has the new key alone.
  await database.close()
  await server.stop()
  server = await startServer({ dataDir: server.dataDir })
  database = await openDirectory(server.dataDir)
  expect(await ask('before')).toEqual({ text: first.text, isReplay: true })
})
