/**
 * Calls that run, in whatever process, while their organization is deleted: each is charged and ends, or is refused. Nothing is charged
 * twice or lost, and what is asked for at the same instant is there to be ended, or refused.
 */

import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from 'bun:test'
import type { TestKey } from '../../../test/customer.ts'
import { type SteppedProvider, startSteppedProvider } from '../../../test/faults/steppedProvider.ts'
import { type Gateway, openGateway } from '../../../test/gateway.ts'
import { until } from '../../../test/until.ts'
import { findImbalances } from '../../billing/charges/store.ts'
import { systemClock } from '../../infra/clock.ts'
import type { Database } from '../../infra/postgres/database.ts'
import { sqlStateOf } from '../../infra/postgres/faults.ts'
import { systemRandom } from '../../infra/random.ts'
import { deleteOrganization } from './deleteOrganization.ts'
import { eraseOrganization } from './erase.ts'

setDefaultTimeout(60_000)

const settings = (url: string) => `
accounts: {}
public_url: http://127.0.0.1:8080
rate_limit: { requests_per_second: 10000, burst: 1000000 }
webhooks: { allow: [127.0.0.0/8] }
providers:
  stepped: { dialect: openai, base_url: "${url}" }
  sandbox: { dialect: sandbox, first_token_ms: 0, tokens_per_second: unlimited, video_seconds_per_second: 0.01 }
models:
  - id: svc/stepped
    context_length: 4096
    pricing: { input_per_1m_tokens_cents: 100000, output_per_1m_tokens_cents: 100000 }
    targets: [{ provider: stepped, model: stepped }]
  - id: svc/words
    modality: embedding
    context_length: 4096
    pricing: { input_per_1m_tokens_cents: 10000000 }
    targets: [{ provider: stepped, model: words }]
  - id: svc/demo
    context_length: 4096
    pricing: { input_per_1m_tokens_cents: 100000, output_per_1m_tokens_cents: 100000 }
    targets: [{ provider: sandbox, model: sandbox }]
  - id: svc/film
    modality: video
    pricing: { per_video_second_cents: 1 }
    parameters: [{ name: seconds, type: int, min: 1, max: 8, default: 1 }]
    targets: [{ provider: sandbox, model: sandbox }]
`

let provider: SteppedProvider
let gateway: Gateway
/** Another process, in which the organization is deleted. */
let other: Gateway
beforeAll(async () => {
  provider = await startSteppedProvider()
  gateway = await openGateway({ settings: settings(provider.url) })
  other = await openGateway({ settings: settings(provider.url), beside: gateway })
})
afterAll(async () => {
  provider.stop()
  await other.close()
  await gateway.close()
})

async function remove({ organizationId }: TestKey, database: Database = other.database) {
  const [row] = await gateway.database.query<{ name: string }>('select name from organizations where id = $1', [
    organizationId,
  ])
  return deleteOrganization(
    {
      database,
      clock: systemClock,
      random: systemRandom(),
      paymentProvider: null,
      lowBalanceMicrocents: 0n,
      wakeJobs: () => {},
    },
    { organizationId, typedName: row?.name ?? '', actor: { kind: 'operator', id: null, address: null }, ownerId: null },
  )
}

const message = (model: string, more = {}) => ({ model, messages: [{ role: 'user', content: 'Hello' }], ...more })

const charges = ({ organizationId }: TestKey) =>
  gateway.database.query<{ outcome: string; cost: bigint }>(
    'select outcome, cost_microcents as cost from charges where organization_id = $1::uuid',
    [organizationId],
  )

describe('a call that runs in another process', () => {
  test('ends as a stream with the error event, charged for what was generated', async () => {
    const key = await gateway.customer()
    const responding = gateway.post(key, '/chat/completions', message('svc/stepped', { stream: true }))
    const asked = await provider.next()
    asked.says('one two three')
    const response = await responding
    expect(await remove(key)).toMatchObject({ ok: true })
    expect(await response.text()).toContain('"code":"invalid_api_key"')
    await asked.cancelled
    const [charge] = await charges(key)
    expect(charge?.outcome).toBe('cancelled')
    expect(charge?.cost).toBeGreaterThan(0n)
    expect(await findImbalances(gateway.database)).toEqual([])
  })

  test('ends as a JSON call with 401, charged for what was generated', async () => {
    const key = await gateway.customer()
    const responding = gateway.post(key, '/chat/completions', message('svc/stepped'), { 'Idempotency-Key': 'whole' })
    const asked = await provider.next()
    asked.says('one two three')
    await remove(key)
    expect((await responding).status).toBe(401)
    expect(await charges(key)).toMatchObject([{ outcome: 'cancelled' }])
  })

  test('is charged where it goes on without its client, as embeddings do', async () => {
    const key = await gateway.customer()
    const responding = gateway.post(key, '/embeddings', { model: 'svc/words', input: 'x', encoding_format: 'float' })
    const asked = await provider.next()
    await remove(key)
    expect((await responding).status).toBe(401)
    const data = [{ object: 'embedding', index: 0, embedding: [1, 2] }]
    const text = JSON.stringify({ object: 'list', data, model: 'words', usage: { prompt_tokens: 1, total_tokens: 1 } })
    asked.socket.write(
      `HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: ${text.length}\r\n\r\n${text}`,
    )
    await until(async () => (await charges(key)).length > 0)
    expect(await charges(key)).toHaveLength(1)
    expect(await findImbalances(gateway.database)).toEqual([])
  })
})

test('calls that are admitted while the deletion waits for its commit are charged and finished; after it all are refused', async () => {
  const key = await gateway.customer()
  const call = () => gateway.post(key, '/chat/completions', message('svc/demo', { max_tokens: 4 }))
  // The process has a share of the account now.
  expect((await call()).status).toBe(200)
  const [isReady, mayCommit] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
  const database: Database = {
    ...other.database,
    query: other.database.query.bind(other.database),
    transaction: (work) =>
      other.database.transaction(async (tx) => {
        const made = await work(tx)
        isReady.resolve()
        await mayCommit.promise
        return made
      }),
  }
  const removing = remove(key, database)
  await isReady.promise
  const during = await Promise.all([call(), call(), call()])
  expect(during.map(({ status }) => status)).toEqual([200, 200, 200])
  for (const each of during) expect((await each.json()).choices[0].finish_reason).toEqual(expect.any(String))
  mayCommit.resolve()
  expect(await removing).toMatchObject({ ok: true })
  // A process hears of it within milliseconds.
  let later = 0
  while (later < 1_000 && (await call()).status === 200) later += 1
  expect((await call()).status).toBe(401)
  expect(await charges(key)).toHaveLength(4 + later)
  expect(await findImbalances(gateway.database)).toEqual([])
})

/** Requests that give an organization something; each is sent by both processes, at the same time as the deletion. */
const GIVEN: Readonly<Record<string, (at: Gateway, key: TestKey) => Promise<Response>>> = {
  call: (at, key) => at.post(key, '/chat/completions', message('svc/demo', { max_tokens: 4 })),
  kept: (at, key) =>
    at.post(key, '/chat/completions', message('svc/demo', { max_tokens: 4 }), {
      'Idempotency-Key': crypto.randomUUID(),
    }),
  video: (at, key) => at.post(key, '/videos', { model: 'svc/film', prompt: 'x', seconds: 2 }),
  key: (at, key) => at.post(key, '/manage/v1/keys', { name: 'k', scope: 'full_access', admin: true }),
  rotated: (at, key) => at.post(key, `/manage/v1/keys/${key.id}/rotate`, {}),
  invitation: (at, key) =>
    at.post(key, '/manage/v1/invitations', { email: `guest-${crypto.randomUUID()}@example.com`, role: 'admin' }),
  endpoint: (at, key) =>
    at.post(
      key,
      '/webhook-endpoints',
      { url: `http://127.0.0.1:9/${crypto.randomUUID()}`, event_types: ['video.completed'] },
      { 'Idempotency-Key': crypto.randomUUID() },
    ),
  notified: (at, key) =>
    at.send('/manage/v1/organization', {
      method: 'PATCH',
      headers: { Authorization: `Bearer ${key.key}`, 'Content-Type': 'application/json' },
      body: JSON.stringify({ notify_addresses: ['late@example.com'] }),
    }),
}

/** Words that must not be there once an organization is deleted and erased. */
const LIVING = [
  'select id from api_keys where organization_id = $1 and revoked_at is null',
  'select id from members where organization_id = $1 and removed_at is null',
  'select id from invitations where organization_id = $1',
  'select id from webhook_endpoints where organization_id = $1',
  "select id from videos where organization_id = $1 and status not in ('cancelled', 'failed')",
  'select id from holds where organization_id = $1',
  "select name from organizations where id = $1 and (notify_addresses <> '{}' or name not like 'deleted %')",
]

/** Erases what requests have still written. While the job of the deletion is at the same entries of the audit log, it is tried again. */
async function eraseAgain(organizationId: string): Promise<void> {
  const dependencies = { database: gateway.database, clock: systemClock, lowBalanceMicrocents: 0n }
  for (let tries = 0; tries < 1_000; tries += 1) {
    const failed = await eraseOrganization(dependencies, organizationId, () => {}).then(
      () => null,
      (error: unknown) => ({ error }),
    )
    if (failed === null) return
    if (sqlStateOf(failed.error) !== LOCK_NOT_AVAILABLE) throw failed.error
  }
  throw new Error('the job is at the entries for ever')
}

const LOCK_NOT_AVAILABLE = '55P03'

test('of what is asked for at the same instant nothing is left, whoever comes first, and no request fails', async () => {
  const statuses = new Map<string, Set<number>>()
  for (let round = 0; round < 12; round += 1) {
    const key = await gateway.customer({ admin: true })
    expect((await GIVEN['call']?.(gateway, key))?.status).toBe(200)
    const acts = [gateway, other].flatMap((at) =>
      Object.entries(GIVEN).map(async ([name, give]) => {
        const answer = await give(at, key)
        const { status } = answer
        statuses.set(name, (statuses.get(name) ?? new Set()).add(status))
        // Its answer may have been whole already, and charged, when the key ended.
        const isEnded = status === 401 && (await answer.text()).includes('while this call was under way')
        return { status, isCall: name === 'call' || name === 'kept', isEnded }
      }),
    )
    // At another place among the requests each time.
    for (let turn = 0; turn < round; turn += 1) await gateway.database.query('select 1')
    const [removed, answers] = await Promise.all([remove(key), Promise.all(acts)])
    expect(removed).toMatchObject({ ok: true })
    await eraseAgain(key.organizationId)
    for (const query of LIVING)
      expect([query, await gateway.database.query(query, [key.organizationId])]).toEqual([query, []])
    const whole = answers.filter(({ isCall, status }) => isCall && status === 200).length
    const ended = answers.filter(({ isCall, isEnded }) => isCall && isEnded).length
    const charged = (await charges(key)).filter(({ outcome }) => outcome === 'completed').length
    const unread = charged - 1 - whole
    expect({ round, unread, isRight: unread >= 0 && unread <= ended }).toEqual({ round, unread, isRight: true })
  }
  for (const [name, seen] of statuses) for (const status of seen) expect([name, status < 500]).toEqual([name, true])
  expect(await findImbalances(gateway.database)).toEqual([])
})
