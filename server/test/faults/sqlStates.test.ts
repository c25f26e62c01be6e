/** Clients are told of errors of the database by SQLSTATE and by route (E14, P2, P3). The server raises each of them. */

import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'bun:test'
import { randomBytes } from 'node:crypto'
import { systemClock } from '../../src/infra/clock.ts'
import { openClient } from '../../src/infra/postgres/client.ts'
import { type AskedGateway, openAskedGateway, type Question } from '../acceptance/ask.ts'
import { chat, film, picture, SETTINGS, words } from '../acceptance/catalog.ts'
import { expectRefusal } from '../acceptance/refusals.ts'
import type { TestKey } from '../customer.ts'
import { LongClock } from '../longClock.ts'
import { CHARGE_DEADLINE_MS } from '../moneyHouse.ts'
import { until } from '../until.ts'
import { type RaisingDatabase, raising } from './raisingDatabase.ts'

const HOOK = { url: 'https://example.com/', event_types: ['video.completed'] }

const clock = new LongClock(Date.UTC(2031, 4, 4, 12))
let planted: RaisingDatabase
let gateway: AskedGateway
let customer: TestKey
let videoId: string
let endpointId: string
beforeAll(async () => {
  gateway = await openAskedGateway({
    settings: SETTINGS.replace('open_requests_per_key: 2', ''),
    clock,
    async dressDatabase(direct) {
      planted = await raising(direct)
      return planted.database
    },
  })
  customer = await gateway.customer({ admin: true })
  const made = async (question: Question) =>
    ((await gateway.ask({ key: customer, ...question })).json as { id: string }).id
  videoId = await made({ path: '/videos', body: film() })
  endpointId = await made({ path: '/webhook-endpoints', body: HOOK, headers: keyed() })
})
afterAll(() => gateway.close())

function keyed(): Record<string, string> {
  return { 'Idempotency-Key': crypto.randomUUID() }
}

/** Of each row of the table in `sqlStates.ts`. */
const UNAVAILABLE =
  '08006 25006 25P03 28000 3D000 40001 40P01 40003 53100 53200 53300 53400 55P03 57014 57P01 57P03 57P05 58030'.split(
    ' ',
  )
/** Faults of ours, whatever the database does. */
const BROKEN = '22003 23505 25P02 42501 42P01 54000 XX000'.split(' ')

type Told = 'by the table' | '503' | 'preflight_unavailable'
type Row = readonly [kind: string, envelope: 'A' | 'B', told: Told, question: () => Question]

const post = (path: string, body: unknown, headers?: Record<string, string>): Question => ({
  path,
  body,
  ...(headers === undefined ? {} : { headers }),
})

const ROUTES: readonly Row[] = [
  // The gates of a call of an organization that this process does not know yet can't be read (P3).
  ['paid', 'B', '503', () => post('/videos', film())],
  ['keyed', 'B', 'by the table', () => post('/chat/completions', chat(), keyed())],
  ['keyed', 'B', 'by the table', () => post('/chat/completions', chat({ stream: true }), keyed())],
  ['keyed', 'B', 'by the table', () => post('/embeddings', words(), keyed())],
  ['keyed', 'B', 'by the table', () => post('/images/generations', picture(), keyed())],
  ['keyed', 'B', 'by the table', () => post('/videos', film(), keyed())],
  ['keyed', 'B', 'by the table', () => post(`/videos/${videoId}/cancel`, {}, keyed())],
  ['read', 'A', 'by the table', () => ({ path: '/billing/balance' })],
  ['read', 'A', 'by the table', () => ({ path: '/billing/spending-limit' })],
  ['read', 'A', 'by the table', () => ({ path: '/billing/subscription' })],
  ['read', 'A', 'by the table', () => ({ path: '/usage' })],
  ['read', 'B', 'by the table', () => ({ path: '/videos' })],
  ['read', 'B', 'by the table', () => ({ path: `/videos/${videoId}` })],
  ['read', 'B', 'by the table', () => ({ path: `/videos/${videoId}/content` })],
  ['preflight', 'B', 'preflight_unavailable', () => ({ path: '/inference/preflight?model=svc/demo' })],
  ['management', 'A', 'by the table', () => ({ path: '/manage/v1/charges' })],
  ['management', 'A', 'by the table', () => ({ path: '/manage/v1/key' })],
  ['management', 'A', 'by the table', () => ({ path: '/manage/v1/deliveries' })],
  [
    'management',
    'A',
    'by the table',
    () => ({ method: 'PUT', ...post('/billing/spending-limit', { monthly_limit_dollars: 5 }) }),
  ],
  ['management', 'A', 'by the table', () => post('/webhook-endpoints', HOOK, keyed())],
  ['management', 'A', 'by the table', () => ({ method: 'DELETE', path: `/webhook-endpoints/${endpointId}` })],
]

/** Asks every route and holds the answers to the table. */
async function expectTold(isBroken: boolean): Promise<void> {
  for (const [kind, envelope, told, question] of ROUTES) {
    const asked = { key: customer, ...question() }
    const answer = await gateway.ask(asked)
    const label = `${kind}: ${asked.method ?? ''} ${asked.path}`
    if (told === 'preflight_unavailable') {
      expect({ label, json: answer.json }).toMatchObject({ label, json: { verdict: 'ok', reason: told } })
      continue
    }
    const isFault = isBroken && told === 'by the table'
    expect({ label, status: answer.status }).toEqual({ label, status: isFault ? 500 : 503 })
    const away = { status: 503, code: envelope === 'A' ? 'internal_error' : 'upstream_unavailable', retryAfter: 1 }
    expectRefusal(answer, envelope, isFault ? { status: 500, code: 'internal_error' } : away)
  }
}

/** The key and its organization are known from now on, and no statement is needed to see that the key is still good. */
beforeEach(async () => {
  await until(async () => {
    const { status } = await gateway.ask({ path: '/chat/completions', key: customer, body: chat() })
    expect(status).toBe(200)
    // After a turn of the clock a process forgets its keys once more, as soon as it hears of changes again.
    planted.raise('57P01')
    const models = await gateway.ask({ path: '/models', key: customer })
    planted.raise(null)
    return models.status === 200
  })
})

describe('raised in place of each statement', () => {
  afterEach(() => planted.raise(null))

  test.each(UNAVAILABLE)(
    '%s: every route is 503, preflight can not tell, and all of them are served afterwards',
    async (state) => {
      planted.raise(state)
      await expectTold(false)
      planted.raise(null)
      for (const [, , , question] of ROUTES) {
        const asked = question()
        if (asked.method === undefined)
          expect((await gateway.ask({ key: customer, ...asked })).status).toBeLessThan(500)
      }
    },
  )

  test.each(BROKEN)('%s is a fault of ours: 500, but where a gate can not be read', async (state) => {
    planted.raise(state)
    await expectTold(true)
  })

  test.each([...UNAVAILABLE, ...BROKEN])(
    '%s: the first call of an organization is not served unchecked: 503',
    async (state) => {
      const fresh = await gateway.customer()
      expect((await gateway.ask({ path: '/models', key: fresh })).status).toBe(200)
      planted.raise(state)
      const answer = await gateway.ask({ path: '/chat/completions', key: fresh, body: chat() })
      expectRefusal(answer, 'B', { status: 503, code: 'upstream_unavailable', retryAfter: 1 })
    },
  )
})

describe('raised by a trigger where a charge is posted', () => {
  // Planted once: a trigger that is made or dropped while the gateway works could wait for it in a ring.
  beforeAll(async () => {
    await gateway.database.query(
      `create table planted_state (state text);
       insert into planted_state values (null);
       create function refuse_charge() returns trigger language plpgsql as $$
       declare planted text := (select state from planted_state);
       begin
         if planted is not null then raise exception 'planted' using errcode = planted; end if;
         return new;
       end $$;
       create trigger refused before insert on charges for each row execute function refuse_charge()`,
    )
  })
  const refuse = (state: string | null) => gateway.database.query('update planted_state set state = $1', [state])
  afterEach(() => refuse(null))

  const entries = (organizationId: string) =>
    gateway.database.query<{ charges: bigint; refunds: bigint }>(
      `select (select count(*) from charges where organization_id = $1::uuid) as charges,
         (select count(*) from ledger_entries where organization_id = $1::uuid and kind = 'refund') as refunds`,
      [organizationId],
    )

  test.each([
    ['53100', 'withdrawn'],
    ['57014', 'withdrawn'],
    ['25006', 'withdrawn'],
    ['08006', 'stands'],
  ])('%s: the call is 503 at the deadline of its charge, which %s', async (state, end) => {
    const fresh = await gateway.customer()
    expect((await gateway.ask({ path: '/chat/completions', key: fresh, body: chat() })).status).toBe(200)
    await refuse(state)
    const headers = keyed()
    const asking = [gateway.ask({ path: '/chat/completions', key: fresh, body: chat() })]
    if (end === 'withdrawn') asking.push(gateway.ask({ path: '/chat/completions', key: fresh, body: chat(), headers }))
    // Until the writer waits for its next try, for 0.4 s then.
    const tries = () => gateway.logs.filter((line) => line.includes('charges not posted yet')).length
    const before = tries()
    await until(() => tries() >= before + 5)
    clock.turn(CHARGE_DEADLINE_MS)
    for (const answer of await Promise.all(asking)) {
      expectRefusal(answer, 'B', { status: 503, code: 'upstream_unavailable', retryAfter: 1 })
    }
    await refuse(null)
    if (end === 'withdrawn') {
      // Its key is free at once: nothing was charged under it.
      const again = await gateway.ask({ path: '/chat/completions', key: fresh, body: chat(), headers })
      expect([again.status, again.headers.get('Idempotency-Replayed')]).toEqual([200, null])
    }
    const wanted = end === 'withdrawn' ? { charges: 2n, refunds: 0n } : { charges: 2n, refunds: 1n }
    await until(async () => (await entries(fresh.organizationId))[0]?.refunds === wanted.refunds)
    expect(await entries(fresh.organizationId)).toEqual([wanted])
  })

  test('22003: the charge is kept for the operator, and the call is answered', async () => {
    const fresh = await gateway.customer()
    await refuse('22003')
    expect((await gateway.ask({ path: '/chat/completions', key: fresh, body: chat() })).status).toBe(200)
    const kept = "select 1 from dead_charges where charge->>'organizationId' = $1"
    expect(await gateway.database.query(kept, [fresh.organizationId])).toHaveLength(1)
  })
})

describe('of a server that', () => {
  const role = `limited_${randomBytes(6).toString('hex')}`
  const urlOf = (database?: string) => {
    const url = new URL(gateway.databaseUrl)
    url.username = role
    url.password = 'its-own'
    if (database !== undefined) url.pathname = `/${database}`
    return url.toString()
  }
  const lockedTables =
    'idempotent_attempts, accounts, videos, charges, usage_hours, webhook_endpoints, webhook_deliveries, api_keys, subscriptions'
  beforeAll(async () => {
    await gateway.database.query(
      `create role ${role} login password 'its-own';
       grant all on all tables in schema public to ${role}; grant all on all sequences in schema public to ${role}`,
    )
  })
  afterAll(async () => {
    await gateway.database.query(`drop owned by ${role}; drop role ${role}`)
  })

  /** Lets the gateway use another pool, and holds the answers to the table. `lock`: while somebody has locked every table. */
  async function expectToldBy(url: string, statementTimeoutMs: number, isLocked: boolean): Promise<void> {
    const pool = openClient(url, { maxConnections: 2, clock: systemClock, statementTimeoutMs })
    const told = async () => {
      planted.use(pool)
      try {
        await expectTold(false)
      } finally {
        planted.use(null)
        await pool.close()
      }
    }
    if (!isLocked) return await told()
    const operator = openClient(gateway.databaseUrl, { maxConnections: 1, clock: systemClock })
    await operator.transaction(async (tx) => {
      await tx.query(`lock table ${lockedTables} in access exclusive mode`)
      await told()
    })
    await operator.close()
  }

  test('takes no more connections (53300)', async () => {
    await gateway.database.query(`alter role ${role} connection limit 0`)
    await expectToldBy(urlOf(), 30_000, false)
    await gateway.database.query(`alter role ${role} connection limit -1`)
  })

  test('lets the gateway in no more (28000)', async () => {
    await gateway.database.query(`alter role ${role} nologin`)
    await expectToldBy(urlOf(), 30_000, false)
    await gateway.database.query(`alter role ${role} login`)
  })

  test('has no such database (3D000)', async () => {
    await expectToldBy(urlOf('no_such_database'), 30_000, false)
  })

  test('ends statements at their timeout, behind a lock (57014)', async () => {
    await expectToldBy(urlOf(), 20, true)
  })

  test('gives up waiting for a lock (55P03)', async () => {
    await gateway.database.query(`alter role ${role} set lock_timeout = 20`)
    await expectToldBy(urlOf(), 30_000, true)
    await gateway.database.query(`alter role ${role} reset lock_timeout`)
  })
})
