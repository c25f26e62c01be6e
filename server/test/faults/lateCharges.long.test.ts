/**
 * A real server whose PostgreSQL is stopped under load for longer than the deadline of charges, and goes on (E14): each call
 * is answered, the books agree, and nobody pays for an answer that they can't have, but for streams.
 */

import { afterAll, afterEach, beforeAll, expect, test } from 'bun:test'
import type { Database } from '../../src/infra/postgres/database.ts'
import { makeCustomer, type TestKey } from '../customer.ts'
import { openDirectory, signalPostgres } from '../dataDirectory.ts'
import { startServer, type TestServer } from '../server.ts'
import { type Seeded, seeded } from './seeded.ts'

const LIMIT_MS = 300_000
const CHAT = '/chat/completions'
const DEADLINE_MS = 2_000
/** The longest stops are longer than what the client of the database gives a statement. */
const STOPS_MS = [3_000, 6_000, 8_000, 45_000]
/** A call that waits for nothing takes less; a machine under load needs some more. */
const CALL_MS = 3_000
const CLIENTS = 8
const GRANTED_CENTS = 1_000_000

const SETTINGS = `
charge_deadline_seconds: ${DEADLINE_MS / 1_000}
open_requests_per_key: 1000
rate_limit: { requests_per_second: 10000, burst: 1000000 }
providers:
  sandbox: { dialect: sandbox }
models:
  - id: svc/words
    context_length: 100000
    pricing: { input_per_1m_tokens_cents: 1000, output_per_1m_tokens_cents: 2000 }
    targets: [{ provider: sandbox, model: sandbox }]
  - id: svc/vectors
    modality: embedding
    context_length: 512
    pricing: { input_per_1m_tokens_cents: 100 }
    targets: [{ provider: sandbox, model: sandbox }]
  - id: svc/pictures
    modality: image
    pricing: { per_image_cents: 1 }
    parameters: [{ name: size, type: enum, enum: ["64x64"], default: "64x64" }]
    targets: [{ provider: sandbox, model: sandbox }]
`

interface Kind {
  readonly name: string
  readonly path: string
  readonly isKeyed: boolean
  readonly isStream: boolean
  readonly body: (pace: string) => object
}

const chat = (more: object) => (pace: string) => ({
  model: 'svc/words',
  messages: [{ role: 'user', content: pace }],
  ...more,
})
const KINDS: Kind[] = [false, true].flatMap((isKeyed) => {
  const kind = (name: string, path: string, body: Kind['body'], isStream = false): Kind => ({
    name: isKeyed ? `${name} with a key` : name,
    path,
    isKeyed,
    isStream,
    body,
  })
  return [
    kind('chat', CHAT, chat({})),
    kind('a stream', CHAT, chat({ stream: true }), true),
    kind('embeddings', '/embeddings', (pace) => ({ model: 'svc/vectors', input: pace })),
    kind('images', '/images/generations', (pace) => ({ model: 'svc/pictures', prompt: pace })),
  ]
})

interface Call {
  readonly startedMs: number
  endedMs: number | null
  /** It has its whole answer. */
  isWhole: boolean
  /** A stream of which something was sent. */
  hasBegun: boolean
  readonly key: string | null
  readonly body: string
  refusal: string
}

/** Clients of one kind, with an organization of their own. */
interface Crowd {
  readonly kind: Kind
  readonly customer: TestKey
  readonly calls: Call[]
}

let isOver = false
let server: TestServer
let database: Database
beforeAll(async () => {
  server = await startServer({ settings: SETTINGS })
  database = await openDirectory(server.dataDir)
}, LIMIT_MS)
afterAll(async () => {
  await database.close()
  await server.remove()
}, LIMIT_MS)

afterEach(() => {
  isOver = true
})

async function makeCall({ kind, customer }: Crowd, call: Call): Promise<void> {
  const response = await fetch(`${server.url}${kind.path}`, {
    method: 'POST',
    headers: {
      Authorization: `Bearer ${customer.key}`,
      'Content-Type': 'application/json',
      ...(call.key === null ? {} : { 'Idempotency-Key': call.key }),
    },
    body: call.body,
  })
  const text = await response.text()
  call.endedMs = performance.now()
  const error = /"error":\{"message":"([^"]*)"/.exec(text)?.[1]
  call.isWhole = response.status === 200 && error === undefined && (!kind.isStream || text.endsWith('[DONE]\n\n'))
  call.hasBegun = kind.isStream && text.includes('"delta"')
  call.refusal = call.isWhole ? '' : `${response.status} ${error ?? text}`
  const isExpected = call.isWhole || response.status === 503 || (kind.isStream && text.endsWith('[DONE]\n\n'))
  if (!isExpected && response.status !== 409) throw new Error(`${kind.name}: ${response.status} ${text}`)
}

/** One call after the other until it is told to end. */
async function client(crowd: Crowd, random: Seeded, isOver: () => boolean): Promise<void> {
  while (!isOver()) {
    const first = random.between(0, 300)
    const more = crowd.kind.path === CHAT ? ' tokens=20 tokens_per_second=100' : ''
    const pace = `[[sandbox first_token_ms=${first}${more}]] ${random.between(0, 1e9)}`
    const call: Call = {
      startedMs: performance.now(),
      endedMs: null,
      isWhole: false,
      hasBegun: false,
      key: crowd.kind.isKeyed ? crypto.randomUUID() : null,
      body: JSON.stringify(crowd.kind.body(pace)),
      refusal: '',
    }
    crowd.calls.push(call)
    await makeCall(crowd, call)
    await Bun.sleep(call.isWhole ? 0 : 50)
  }
}

/** Those who have a key ask again until the answer is there. */
async function askAgain(crowd: Crowd): Promise<void> {
  const unanswered = crowd.calls.filter(({ isWhole }) => !isWhole)
  const ask = (call: Call) =>
    until(async () => {
      await makeCall(crowd, call)
      return call.isWhole
    })
  await Promise.all(unanswered.map(ask))
}

async function until(isSo: () => boolean | Promise<boolean>): Promise<void> {
  const deadlineMs = performance.now() + 60_000
  while (!(await isSo())) {
    if (performance.now() > deadlineMs) throw new Error('it never was')
    await Bun.sleep(20)
  }
}

const unposted = async () =>
  Number(/^tollgate_unposted_charges (\d+)$/m.exec(await (await fetch(`${server.adminUrl}/metrics`)).text())?.[1])

/** Calls of a crowd, and what its organization was charged. */
async function booksOf({ customer }: Crowd) {
  const [row] = await database.query<{ charges: bigint; refunds: bigint; paid: bigint; balance: bigint }>(
    `select count(*) filter (where e.id is null) as charges, count(e.id) as refunds,
       coalesce(sum(c.cost_microcents) filter (where e.id is null), 0)::bigint as paid,
       (select a.balance_microcents - coalesce((select sum(s.spent_microcents) from unfolded_spend s
          where s.organization_id = a.organization_id), 0) from accounts a where a.organization_id = $1::uuid)::bigint as balance
     from charges c left join ledger_entries e
       on e.source = 'refund:' || c.id and e.amount_microcents = c.cost_microcents
     where c.organization_id = $1::uuid`,
    [customer.organizationId],
  )
  if (row === undefined) throw new Error('there is no such organization')
  return { ...row, charges: Number(row.charges), refunds: Number(row.refunds) }
}

test.each(STOPS_MS)(
  'PostgreSQL is stopped for %p ms',
  async (stopMs) => {
    const random = seeded(stopMs)
    const crowds: Crowd[] = []
    for (const kind of KINDS) {
      crowds.push({ kind, customer: await makeCustomer(database, { cents: GRANTED_CENTS }), calls: [] })
    }
    isOver = false
    const clients = crowds.flatMap((crowd) =>
      Array.from({ length: CLIENTS }, () => client(crowd, random, () => isOver)),
    )
    const all = () => crowds.flatMap(({ calls }) => calls)
    await until(() => crowds.every(({ calls }) => calls.filter(({ isWhole }) => isWhole).length > 2 * CLIENTS))
    await signalPostgres(server.dataDir, 'SIGSTOP')
    const stoppedMs = performance.now()
    const before = all().filter(({ endedMs }) => endedMs === null)
    let hanging: string[] = []
    try {
      expect((await (await fetch(`${server.url}/health`)).json()) as object).toEqual({ status: 'ok' })
      await Bun.sleep(stopMs)
      // Those with a key may wait for the key, as long as the client of the database does.
      const isBound = (call: Call) => call.key === null || stopMs > 40_000
      hanging = before.filter((call) => call.endedMs === null && isBound(call)).map(({ body }) => body)
    } finally {
      await signalPostgres(server.dataDir, 'SIGCONT')
    }
    if (stopMs > DEADLINE_MS + CALL_MS) expect(hanging).toEqual([])
    const served = () => all().filter(({ isWhole, startedMs }) => isWhole && startedMs > stoppedMs + stopMs)
    await until(() => served().length > CLIENTS)
    isOver = true
    await Promise.all(clients)
    expect(all().filter(({ endedMs }) => endedMs === null)).toEqual([])
    await until(async () => (await unposted()) === 0)

    const late = all().filter(({ refusal }) => /in time/.test(refusal)).length
    expect(late).toBeGreaterThan(0)
    await Promise.all(crowds.filter(({ kind }) => kind.isKeyed).map(askAgain))
    let credited = 0
    for (const crowd of crowds) {
      const { charges, refunds, paid, balance } = await booksOf(crowd)
      const { isKeyed, isStream, name } = crowd.kind
      const paying = crowd.calls.filter(({ isWhole, hasBegun }) => isWhole || (hasBegun && !isKeyed)).length
      expect({ name, charges }).toEqual({ name, charges: paying })
      if (isKeyed || isStream) expect({ name, refunds }).toEqual({ name, refunds: 0 })
      expect({ name, balance }).toEqual({ name, balance: BigInt(GRANTED_CENTS) * 1_000_000n - paid })
      credited += refunds
    }
    expect(await server.command('ledger', 'verify')).toMatchObject({ agrees: true })
    const total = all().length
    console.log(
      `${stopMs} ms: ${total} calls, ${before.length} of them open at the stop; ${late} late, ${credited} charges credited`,
    )
  },
  LIMIT_MS,
)
