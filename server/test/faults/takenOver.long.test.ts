/**
 * Two gateways for real: the first is stopped in mid-call and loses the connection that holds its slot, the second takes
 * its Idempotency-Key over, and the first goes on as if nothing had been. One charge, and one whole answer.
 */

import { afterAll, beforeAll, expect, test } from 'bun:test'
import { LOCK_CLASS } from '../../src/infra/postgres/locks.ts'
import { makeCustomer } from '../customer.ts'
import { type FreshDatabase, freshDatabase } from '../postgres.ts'
import { startServer, type TestServer } from '../server.ts'
import { untilOld } from './idempotencyHouse.ts'
import { type SteppedProvider, startSteppedProvider } from './steppedProvider.ts'

let fresh: FreshDatabase
let provider: SteppedProvider
const servers: TestServer[] = []
beforeAll(async () => {
  fresh = await freshDatabase()
  provider = await startSteppedProvider()
  const settings = `
providers: { stepped: { dialect: openai, base_url: "${provider.url}" } }
models:
  - id: svc/stepped
    context_length: 4096
    pricing: { input_per_1m_tokens_cents: 1, output_per_1m_tokens_cents: 1 }
    targets: [{ provider: stepped, model: x }]
`
  const environment = { DATABASE_URL: fresh.url, TOLLGATE_DATA_KEY: 'cd'.repeat(32) }
  for (let number = 0; number < 2; number += 1) servers.push(await startServer({ settings, environment }))
  await untilOld(fresh.database)
}, 180_000)
afterAll(async () => {
  for (const server of servers) {
    server.process.kill('SIGCONT')
    await server.remove()
  }
  await fresh.drop()
  provider.stop()
}, 60_000)

test.each([
  ['JSON', false],
  ['a stream', true],
])(
  '%s',
  async (name, stream) => {
    const [first, second] = servers
    if (first === undefined || second === undefined) throw new Error('no servers')
    const customer = await makeCustomer(fresh.database)
    const ask = async (server: TestServer) => {
      const response = await fetch(`${server.url}/chat/completions`, {
        method: 'POST',
        headers: { Authorization: `Bearer ${customer.key}`, 'Idempotency-Key': name },
        body: JSON.stringify({ model: 'svc/stepped', stream, messages: [{ role: 'user', content: 'x' }] }),
      })
      return { status: response.status, text: await response.text() }
    }
    const late = ask(first)
    const lateCall = await provider.next()
    lateCall.says('late')
    expect((await ask(second)).status).toBe(409)

    first.process.kill('SIGSTOP')
    const ended = await fresh.database.query(
      `select pg_terminate_backend(l.pid, 5000) from pg_locks l join idempotent_attempts a on l.objid = a.slot
     where l.locktype = 'advisory' and l.classid = $1::integer and a.key_id = $2::uuid`,
      [LOCK_CLASS.slot, customer.id],
    )
    expect(ended).toHaveLength(1)
    const taking = ask(second)
    const takenCall = await provider.next()
    first.process.kill('SIGCONT')
    lateCall.ends({ prompt: 3, completion: 1 })
    const refused = await late
    expect(refused.status).toBe(stream ? 200 : 409)
    expect(refused.text).toContain('"code":"idempotency_conflict"')
    expect(refused.text).not.toContain('"finish_reason":"stop"')

    takenCall.says('taken')
    takenCall.ends({ prompt: 3, completion: 1 })
    const taken = await taking
    expect([taken.status, taken.text.includes('taken')]).toEqual([200, true])
    for (const server of servers) expect((await ask(server)).text).toBe(taken.text)
    const charges = await fresh.database.query('select 1 from charges where key_id = $1::uuid', [customer.id])
    expect(charges).toHaveLength(1)
  },
  60_000,
)
