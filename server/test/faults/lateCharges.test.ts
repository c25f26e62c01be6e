/** A database that stalls under paid calls (E14): each call is answered, and nobody pays for what they can't have. */

import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'bun:test'
import { readBalance } from '../../src/billing/admission/balance/balance.ts'
import { findImbalances } from '../../src/billing/charges/store.ts'
import { MICROCENTS_PER_CENT } from '../../src/lib/money.ts'
import { SECOND_MS } from '../../src/lib/time.ts'
import { type AskedGateway, openAskedGateway, readAnswer } from '../acceptance/ask.ts'
import { chat, picture, SETTINGS, words } from '../acceptance/catalog.ts'
import type { Answer } from '../acceptance/description.ts'
import { errorObject, expectRefusal } from '../acceptance/refusals.ts'
import type { TestKey } from '../customer.ts'
import { LongClock } from '../longClock.ts'
import { metric, metricsPage } from '../metricsPage.ts'
import { type Stall, type StalledDatabase, stallable } from '../stalledDatabase.ts'
import { until } from '../until.ts'

const CENTS = 1_000
const DEADLINE_MS = 30 * SECOND_MS
/** How long providers take: longer than what the clock lets pass by itself. */
const FIRST_TOKEN_MS = 6 * SECOND_MS
/** Between two calls, shorter than that. */
const APART_MS = SECOND_MS
const PACE = `[[sandbox first_token_ms=${FIRST_TOKEN_MS}]]`
const KEPT = { status: 503, code: 'upstream_unavailable', retryAfter: 1, says: /same Idempotency-Key/ }
const WITHDRAWN = { status: 503, code: 'upstream_unavailable', retryAfter: 1, says: /Nothing was charged/ }
const CREDITED = { status: 503, code: 'upstream_unavailable', retryAfter: 1, says: /is credited/ }

const clock = new LongClock(Date.UTC(2031, 4, 4, 12))
let stalled: StalledDatabase
let gateway: AskedGateway
let customer: TestKey
beforeAll(async () => {
  gateway = await openAskedGateway({
    settings: SETTINGS.slice(0, SETTINGS.indexOf('plans:')).replace('open_requests_per_key: 2', ''),
    clock,
    dressDatabase(database) {
      stalled = stallable(database, (text) => /insert into charges/.test(text))
      return stalled.database
    },
  })
})
afterAll(() => gateway.close())

beforeEach(async () => {
  customer = await gateway.customer({ cents: CENTS })
  // From now on its key is known, and its share is granted.
  expect((await gateway.ask({ path: '/chat/completions', key: customer, body: chat() })).status).toBe(200)
})

afterEach(async () => {
  stalled.recover('lost')
  await posted()
  expect(await findImbalances(gateway.database)).toEqual([])
  // No hold is left behind, and no place.
  expect(await figure('held_microcents')).toBe(0)
  expect(await figure('open_requests')).toBe(0)
})

const figure = (name: string) => metric(gateway.app, name)

const posted = () => until(async () => (await figure('unposted_charges')) === 0)

interface Sent {
  /** Null while it is not answered. */
  answer: Answer | null
  hangUp(): void
}

/** Sends a call whose provider does not answer before the clock is turned. */
async function send(path: string, body: object, idempotencyKey?: string): Promise<Sent> {
  const client = new AbortController()
  const sent: Sent = { answer: null, hangUp: () => client.abort() }
  const held = await figure('held_microcents')
  const headers = idempotencyKey === undefined ? {} : { 'Idempotency-Key': idempotencyKey }
  const response = gateway.send(path, {
    method: 'POST',
    headers: { Authorization: `Bearer ${customer.key}`, 'Content-Type': 'application/json', ...headers },
    body: JSON.stringify(body),
    signal: client.signal,
  })
  response.then(readAnswer).then(
    (answer) => {
      sent.answer = answer
    },
    () => {},
  )
  await until(async () => (await figure('held_microcents')) > held)
  return sent
}

/** Stalls the database once a call is under way: its key is taken and its money held. */
async function sendAndStall(stall: Stall, path: string, body: object, idempotencyKey?: string): Promise<Sent> {
  const sent = await send(path, body, idempotencyKey)
  stalled.stall(stall)
  await finishProvider(FIRST_TOKEN_MS)
  return sent
}

/** The charge of the first is sent and stalled, that of the second waits behind it. */
async function sendTwoAndStall(path: string, body: object): Promise<[first: Sent, second: Sent]> {
  const first = await send(path, body)
  clock.turn(APART_MS)
  const second = await send(path, body)
  stalled.stall('within')
  await finishProvider(FIRST_TOKEN_MS - APART_MS)
  await finishProvider(APART_MS)
  return [first, second]
}

/** Lets a provider answer; what it made is to be charged. */
async function finishProvider(afterMs: number): Promise<void> {
  const before = await figure('unposted_charges')
  clock.turn(afterMs)
  await until(async () => stalled.waiting > 0 && (await figure('unposted_charges')) > before)
}

/** Turns the clock past the deadline and returns the answers of these calls. */
async function passDeadline(...sent: readonly Sent[]): Promise<(Answer | null)[]> {
  clock.turn(DEADLINE_MS)
  await until(() => sent.every(({ answer }) => answer !== null))
  return sent.map(({ answer }) => answer)
}

function expect503(answer: Answer | null | undefined, expected: typeof KEPT): void {
  if (answer === null || answer === undefined) throw new Error('it was not answered')
  expectRefusal(answer, 'B', expected)
}

interface Books {
  readonly charges: number
  readonly refunds: number
  /** By how much the balance is below what was granted. */
  readonly paidMicrocents: bigint
}

async function books(): Promise<Books> {
  const id = customer.organizationId
  const count = async (from: string) =>
    (await gateway.database.query(`select from ${from} and organization_id = $1::uuid`, [id])).length
  return {
    // Beside the first call's.
    charges: (await count('charges where true')) - 1,
    refunds: await count("ledger_entries where kind = 'refund'"),
    paidMicrocents: BigInt(CENTS) * MICROCENTS_PER_CENT - ((await readBalance(gateway.database, id)) ?? 0n),
  }
}

const CHAT = '/chat/completions'
const ENDPOINTS: [name: string, path: string, body: object][] = [
  ['chat', CHAT, chat({}, PACE)],
  ['embeddings', '/embeddings', words({ input: PACE })],
  ['images', '/images/generations', picture({ prompt: PACE })],
]

test('late charges are counted from 0, so that an alarm sees the first one', async () => {
  const page = await metricsPage(gateway.app)
  for (const outcome of ['withdrawn', 'standing'])
    expect(page).toContain(`tollgate_late_charges_total{outcome="${outcome}"} 0`)
})

describe.each(ENDPOINTS)('a whole answer: %s', (_name, path, body) => {
  test('of a charge that was sent: 503, and credited when the charge is posted; of one that was not: never charged', async () => {
    const { paidMicrocents } = await books()
    const [first, second] = await sendTwoAndStall(path, body)
    const withdrawn = await figure('late_charges_total{outcome="withdrawn"}')
    const answers = await passDeadline(first, second)
    expect503(answers[0], CREDITED)
    expect503(answers[1], WITHDRAWN)
    expect(await figure('late_charges_total{outcome="withdrawn"}')).toBe(withdrawn + 1)
    expect(await figure('unposted_charges')).toBe(1)
    stalled.recover('lost')
    await posted()
    expect(await books()).toEqual({ charges: 1, refunds: 1, paidMicrocents })
    const credited = await gateway.database.query(
      `select from ledger_entries e join charges c on e.source = 'refund:' || c.id and e.amount_microcents = c.cost_microcents
       where e.organization_id = $1::uuid`,
      [customer.organizationId],
    )
    expect(credited).toHaveLength(1)
  })

  test('whose charge was carried out unheard: 503, and credited', async () => {
    const { paidMicrocents } = await books()
    const sent = await sendAndStall('after', path, body)
    expect503((await passDeadline(sent))[0], CREDITED)
    expect(await books()).toMatchObject({ charges: 1, refunds: 0 })
    stalled.recover('answered')
    await posted()
    expect(await books()).toEqual({ charges: 1, refunds: 1, paidMicrocents })
  })

  test('whose charge comes through before the deadline: delivered and paid', async () => {
    const sent = await sendAndStall('within', path, body)
    clock.turn(DEADLINE_MS / 2)
    expect(sent.answer).toBeNull()
    stalled.recover('answered')
    await until(() => sent.answer !== null)
    expect(sent.answer?.status).toBe(200)
    expect(await books()).toMatchObject({ charges: 1, refunds: 0 })
  })

  test('with an Idempotency-Key: the charge stands, the key is in progress until it is known, then the answer is replayed', async () => {
    const key = crypto.randomUUID()
    const again = () => gateway.ask({ path, key: customer, body, headers: { 'Idempotency-Key': key } })
    const sent = await sendAndStall('within', path, body, key)
    // The first try has failed, and nobody knows whether it was carried out; the next one does not begin.
    stalled.recover('lost')
    stalled.stall('before')
    await until(() => stalled.waiting > 0)
    expect503((await passDeadline(sent))[0], KEPT)
    for (let look = 0; look < 3; look += 1) {
      const busy = await again()
      expectRefusal(busy, 'B', { status: 409, code: 'idempotency_conflict', retryAfter: 1 })
    }
    expect(await books()).toMatchObject({ charges: 0, refunds: 0 })
    stalled.recover('answered')
    await posted()
    const replay = await again()
    expect([replay.status, replay.headers.get('Idempotency-Replayed')]).toEqual([200, 'true'])
    expect(await books()).toMatchObject({ charges: 1, refunds: 0 })
  })

  test('with an Idempotency-Key, of a charge that was not sent: never charged, and the key is free at once', async () => {
    const key = crypto.randomUUID()
    const sent = await sendAndStall('before', path, body, key)
    expect503((await passDeadline(sent))[0], WITHDRAWN)
    stalled.recover('answered')
    await posted()
    expect(await books()).toMatchObject({ charges: 0, refunds: 0 })
    const retried = await send(path, body, key)
    clock.turn(FIRST_TOKEN_MS)
    await until(() => retried.answer !== null)
    expect(retried.answer?.status).toBe(200)
    expect(retried.answer?.headers.get('Idempotency-Replayed')).toBeNull()
    expect(await books()).toMatchObject({ charges: 1, refunds: 0 })
  })

  test('whose client has hung up, with an Idempotency-Key: the charge stands, sent or not, and the answer is kept', async () => {
    const key = crypto.randomUUID()
    const sent = await sendAndStall('before', path, body, key)
    sent.hangUp()
    await passDeadline()
    stalled.recover('lost')
    await posted()
    expect(await books()).toMatchObject({ charges: 1, refunds: 0 })
    const replay = await gateway.ask({ path, key: customer, body, headers: { 'Idempotency-Key': key } })
    expect([replay.status, replay.headers.get('Idempotency-Replayed')]).toEqual([200, 'true'])
  })
})

test('a client that hangs up pays for what was generated, however late that is charged', async () => {
  for (const each of await sendTwoAndStall(CHAT, chat({}, PACE))) each.hangUp()
  await passDeadline()
  expect(await figure('unposted_charges')).toBe(2)
  stalled.recover('lost')
  await posted()
  expect(await books()).toMatchObject({ charges: 2, refunds: 0 })
})

describe('a stream', () => {
  const body = chat({ stream: true }, PACE)

  /** Some text, the error, and nothing after it but the end. */
  function expectErrorAtItsEnd(answer: Answer | null | undefined, says: RegExp): void {
    const { events } = answer ?? { events: [] }
    expect(events.length).toBeGreaterThan(2)
    const error = JSON.parse(events.at(-2) ?? '')
    expect(error).toEqual(errorObject({ status: 503, code: 'upstream_unavailable' }))
    expect(error.error.message).toMatch(says)
    expect(events.at(-1)).toBe('[DONE]')
    expect(events.slice(0, -2).join()).not.toContain('usage":{')
  }

  test('ends with the error event, and its charge stands, sent or not', async () => {
    const [first, second] = await sendTwoAndStall(CHAT, body)
    for (const answer of await passDeadline(first, second)) expectErrorAtItsEnd(answer, /What was sent is charged/)
    stalled.recover('lost')
    await posted()
    expect(await books()).toMatchObject({ charges: 2, refunds: 0 })
  })

  test('with an Idempotency-Key ends the same way, and is replayed whole once its charge is known', async () => {
    const key = crypto.randomUUID()
    const sent = await sendAndStall('after', CHAT, body, key)
    expectErrorAtItsEnd((await passDeadline(sent))[0], /same Idempotency-Key/)
    stalled.recover('lost')
    await posted()
    const replay = await gateway.ask({ path: CHAT, key: customer, body, headers: { 'Idempotency-Key': key } })
    expect(replay.headers.get('Idempotency-Replayed')).toBe('true')
    expect(replay.text).not.toContain('error')
    expect(replay.events.at(-1)).toBe('[DONE]')
    expect(replay.events.at(-2)).toContain('usage":{')
    expect(await books()).toMatchObject({ charges: 1, refunds: 0 })
  })

  test('whose client hangs up: its charge stands', async () => {
    const sent = await sendAndStall('within', CHAT, body)
    sent.hangUp()
    await passDeadline()
    stalled.recover('lost')
    await posted()
    expect(await books()).toMatchObject({ charges: 1, refunds: 0 })
  })
})

test('while charges are late the server is alive and not ready, and new calls are refused', async () => {
  const sent = await sendAndStall('within', CHAT, chat({}, PACE))
  await passDeadline(sent)
  expect((await gateway.ask({ path: '/health' })).json).toEqual({ status: 'ok' })
  const ready = await gateway.app.handleAdmin(new Request('http://gateway.test/ready'))
  expect([ready.status, await ready.text()]).toEqual([503, expect.stringContaining('not being committed')])
  expect503(await gateway.ask({ path: CHAT, key: customer, body: chat() }), { ...WITHDRAWN, says: /Nothing was done/ })
})
