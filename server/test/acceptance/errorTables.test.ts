/**
 * A row for every row of the two error tables of the interface's section 7. Those that other tests have stand in lists of
 * `errorRows.ts`.
 */

import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { systemClock } from '../../src/infra/clock.ts'
import { MINUTE_MS } from '../../src/lib/time.ts'
import { freezeOrganization } from '../../src/payments/freezes/freezes.ts'
import { type AskedGateway, openAskedGateway, type Question } from './ask.ts'
import { cancelledInProgress } from './cancellations.ts'
import { chat, directed, film, picture, SETTINGS, words } from './catalog.ts'
import { BY_THEMSELVES, balance, envelopeA, envelopeB, OF_DEPOSITS, OF_INSTANCES, path, TABLES } from './errorRows.ts'
import { ofPayments, PAYING_SETTINGS } from './paymentRows.ts'
import { subscribe, useUpPlan } from './plans.ts'
import { expectErrorEvent, expectRefusal } from './refusals.ts'
import { type Row, UUID } from './rows.ts'
import { HOOK, HOOKS } from './webhookRows.ts'

let gateway: AskedGateway
/** With payments. */
let paying: AskedGateway
const keys: Record<string, string> = {}

beforeAll(async () => {
  gateway = await openAskedGateway({ settings: SETTINGS })
  paying = await openAskedGateway({ settings: PAYING_SETTINGS, beside: gateway })
  const make = async (name: string, options: Parameters<AskedGateway['customer']>[0]) => {
    keys[name] = (await gateway.customer(options)).key
  }
  const good = await gateway.customer({})
  keys['good'] = good.key
  await gateway.database.query(
    `insert into videos (id, organization_id, key_id, created_at, model, tier, price_hash, second_microcents, seconds, status)
     values ($1::uuid, $2::uuid, $3::uuid, now(), 'svc/film', 'serverless', '', 1, 4, 'expired')`,
    [UUID, good.organizationId, good.id],
  )
  await make('admin', { admin: true })
  await make('unbilled', { admin: true })
  const subscribed = await gateway.customer({ admin: true })
  keys['subscribed'] = subscribed.key
  await subscribe(gateway.database, subscribed, 'small')
  const frozen = await gateway.customer({ admin: true })
  keys['frozen'] = frozen.key
  const freeze = { reason: 'operator', cause: '', note: 'secret words', frozenAtMs: systemClock.now() } as const
  await freezeOrganization(gateway.database, frozen.organizationId, freeze)
  await make('poor', { cents: 0 })
  await make('capped', { admin: true })
  const limit = { monthly_limit_dollars: 100, daily_limit_dollars: 0.01 }
  const set = await gateway.ask({ method: 'PUT', path: '/billing/spending-limit', key: keys['capped'], body: limit })
  expect(set.status).toBe(200)
  const subscriber = await gateway.customer({ cents: 0 })
  keys['used up'] = subscriber.key
  await useUpPlan(gateway.database, subscriber)
  const renewing = await gateway.customer({ cents: 0 })
  keys['used up in grace'] = renewing.key
  await useUpPlan(gateway.database, renewing, -MINUTE_MS)
  const canceller = await gateway.customer()
  keys['cancelled much'] = canceller.key
  await cancelledInProgress(gateway.database, canceller, 60, systemClock.now())
  await make('expired', { expiresAtMs: 1 })
  const revoked = await gateway.customer()
  keys['revoked'] = revoked.key
  await gateway.database.query('update api_keys set revoked_at = created_at where id = $1::uuid', [revoked.id])
  await make('chat only', { scopes: 'serverless:write' })
  await make('reader', { scopes: 'read_only' })
  for (let index = 0; index < 60; index += 1) {
    await gateway.ask({ path: '/models', key: `svc_live_${`${index}`.padStart(24, '0')}`, address: '192.0.2.60' })
  }
})
afterAll(async () => {
  await paying.close()
  await gateway.close()
})

const own = (row: Row): Question => ({ ...row, key: row.key === undefined ? undefined : (keys[row.key] ?? row.key) })

describe('envelope A', () => {
  test.each(envelopeA)('%s', async (_name, row) => {
    const answer = await gateway.ask(own(row))
    const wait = answer.headers.get('Retry-After')
    const retryAfter = row.retryAfter === undefined ? {} : { retryAfter: atMost(wait, row.retryAfter) }
    expectRefusal(answer, 'A', { ...row, ...retryAfter })
  })
})

describe('envelope A, with payments', () => {
  test.each(ofPayments())('%s', async (_name, row) => {
    expectRefusal(await paying.ask(own(row)), 'A', row)
  })

  test('checkout and portal take no body; a checkout subscribes nobody; the portal stays open to the frozen (B11)', async () => {
    const key = await gateway.customer({ admin: true })
    const send = (path: string) => paying.ask({ method: 'POST', path, key })
    const opened = await send('/billing/subscription/checkout')
    expect(opened).toMatchObject({ status: 200, json: { plan: { key: 'small' } } })
    const shown = (await paying.ask({ path: '/billing/subscription', key })).json
    expect(shown).toMatchObject({ subscribed: false, status: 'none', plan: { key: 'small' } })
    expect(shown).not.toHaveProperty('usage')
    const freeze = { reason: 'operator', cause: '', note: null, frozenAtMs: systemClock.now() } as const
    await freezeOrganization(gateway.database, key.organizationId, freeze)
    expectRefusal(await send('/billing/subscription/checkout'), 'A', { status: 403, code: 'org-frozen' })
    expect((await send('/billing/subscription/portal')).status).toBe(200)
  })

  test('the payment provider away: 503 for checkout, portal and top-up, and nothing is open afterwards', async () => {
    const stripe = 'payments: { provider: stripe, secret_key_env: STRIPE_KEY, api_url: "http://127.0.0.1:1" }'
    const settings = PAYING_SETTINGS.replace('payments: { provider: local }', stripe).replace(
      'local_2000_month',
      'price_1',
    )
    const environment = { STRIPE_KEY: 'sk_test_1' }
    const away = await openAskedGateway({ settings, environment, beside: gateway })
    const key = await gateway.customer({ admin: true })
    await gateway.database.query(
      `insert into payment_customers (organization_id, provider, customer, created_at) values ($1::uuid, 'stripe', $2, now())`,
      [key.organizationId, `cus_${key.id}`],
    )
    for (const [path, body] of [
      ['/billing/subscription/checkout', { plan_key: 'small' }],
      ['/billing/subscription/portal', {}],
      ['/manage/v1/top-ups', { amount_cents: 500 }],
    ] as const) {
      const answer = await away.ask({ path, key, body })
      const retryAfter = Number(answer.headers.get('Retry-After'))
      expectRefusal(answer, 'A', { status: 503, code: 'payment-source-unavailable', retryAfter })
    }
    expect((await away.ask({ path: '/manage/v1/payments', key })).json).toMatchObject({ data: [{ state: 'failed' }] })
    await away.close()
  })
})

describe('envelope B', () => {
  test.each(envelopeB)('%s', async (_name, row) => {
    const answer = await gateway.ask(own(row))
    const wait = answer.headers.get('Retry-After')
    const retryAfter = row.retryAfter === undefined ? {} : { retryAfter: atMost(wait, row.retryAfter) }
    expectRefusal(answer, 'B', { ...row, ...retryAfter })
  })

  test.each([
    [path, chat, { temperature: 1 }, directed('first_token_ms=200')],
    ['/embeddings', words, { input: 'Others.' }, words({ input: '[[sandbox first_token_ms=200]]' })],
    ['/images/generations', picture, { n: 2 }, picture({ prompt: '[[sandbox first_token_ms=200]]' })],
  ] as const)('%s: an Idempotency-Key of another request, and of one that is still running', async (...row) => {
    const [endpoint, make, more, slow] = row
    const ask = (key: string, body: unknown) =>
      gateway.ask({ path: endpoint, key: keys['good'], body, headers: { 'Idempotency-Key': key } })
    expect((await ask(`used ${endpoint}`, make())).status).toBe(200)
    const mismatch = await ask(`used ${endpoint}`, make(more))
    expectRefusal(mismatch, 'B', { status: 422, code: 'idempotency_mismatch', says: /new key/ })
    const answers = await Promise.all([ask(`running ${endpoint}`, slow), ask(`running ${endpoint}`, slow)])
    const [refused] = answers.filter(({ status }) => status !== 200)
    if (refused === undefined) throw new Error('nothing was refused')
    expectRefusal(refused, 'B', { status: 409, code: 'idempotency_conflict', retryAfter: 1 })
  })

  test('an organization that keeps all it may: requests with a key are refused, replays and requests without one are not', async () => {
    const customer = await gateway.customer()
    const withKey = (key: string) => ({ key: customer, headers: { 'Idempotency-Key': key } })
    expect((await gateway.ask({ path, body: chat(), ...withKey('kept') })).status).toBe(200)
    const { status: created } = await gateway.ask({ path: HOOKS, body: HOOK, ...withKey('required first') })
    expect(created).toBe(201)
    const full = await gateway.customer()
    for (const { organizationId } of [full, customer]) {
      await gateway.database.query(
        `insert into kept_answer_bytes (organization_id, slot, bytes) values ($1::uuid, 900, 1099511627776)`,
        [organizationId],
      )
    }
    const asked = { key: full, headers: { 'Idempotency-Key': 'more' } }
    const more = { status: 429, retryAfter: 60, says: /send it without the key, or later/ }
    const inA = await gateway.ask({ path: `${HOOKS}/${UUID}`, method: 'DELETE', ...asked })
    expectRefusal(inA, 'A', { ...more, code: 'rate_limited' })
    expectRefusal(await gateway.ask({ path, body: chat(), ...asked }), 'B', { ...more, code: 'rate_limit_exceeded' })
    expect((await gateway.ask({ path, body: chat(), key: full })).status).toBe(200)
    expect((await gateway.ask({ path: HOOKS, body: HOOK, ...asked })).status).toBe(201)
    const replayed = await gateway.ask({ path, body: chat(), ...withKey('kept') })
    expect([replayed.status, replayed.headers.get('Idempotency-Replayed')]).toEqual([200, 'true'])
  })

  test('an unknown model on a stream comes as its only event', async () => {
    const body = chat({ model: 'svc/x', stream: true })
    const answer = await gateway.ask({ path, key: keys['good'], body })
    expectErrorEvent(answer, 0, { status: 404, code: 'model_not_found', param: 'model' })
    expect(answer.events).toHaveLength(2)
  })

  test('too many open requests on one key, and none too many on another of the same organization', async () => {
    const customer = await gateway.customer()
    const open = async () => {
      const leaves = new AbortController()
      const body = JSON.stringify(directed('silent_after=1', { stream: true }))
      const headers = { Authorization: `Bearer ${customer.key}` }
      const response = await gateway.send(path, { method: 'POST', headers, body, signal: leaves.signal })
      const reader = response.body?.getReader()
      await reader?.read()
      return async () => {
        await reader?.cancel()
      }
    }
    const leaving = [await open(), await open()]
    const expected = { status: 429, code: 'stream_limit_exceeded', retryAfter: 1, says: /2 requests open/ }
    for (const [endpoint, body] of [
      [path, chat()],
      ['/embeddings', words()],
      ['/images/generations', picture()],
      ['/videos', film()],
    ] as const) {
      expectRefusal(await gateway.ask({ path: endpoint, key: customer, body }), 'B', expected)
    }
    for (const free of ['/models', '/videos', HOOKS]) {
      expect((await gateway.ask({ path: free, key: customer })).status).toBe(200)
    }
    expect((await gateway.ask({ path, key: keys['good'], body: chat() })).status).toBe(200)
    for (const leave of leaving) await leave()
    // The places are given back once what was generated is charged.
    while ((await gateway.ask({ path, key: customer, body: chat() })).status === 429) await turn()
  })
})

describe('a fault of our own', () => {
  test('is a 500, logged with its request id', async () => {
    const broken = await openAskedGateway({ settings: SETTINGS })
    const customer = await broken.customer()
    expect((await broken.ask({ path: balance, key: customer })).status).toBe(200)
    await broken.database.query('alter table accounts rename to gone')
    const inA = await broken.ask({ path: balance, key: customer })
    expectRefusal(inA, 'A', { status: 500, code: 'internal_error' })
    expect(broken.logs.join('')).toContain(inA.headers.get('X-Request-Id') ?? '?')
    await broken.database.query('alter table gone rename to accounts')
    await broken.database.query('alter table idempotent_attempts rename to gone')
    for (const [endpoint, body] of [
      [path, chat()],
      ['/embeddings', words()],
      ['/images/generations', picture()],
      ['/videos', film()],
    ] as const) {
      const headers = { 'Idempotency-Key': endpoint }
      const inB = await broken.ask({ path: endpoint, key: customer, body, headers })
      expectRefusal(inB, 'B', { status: 500, code: 'internal_error' })
      expect(broken.logs.join('')).toContain(inB.headers.get('X-Request-Id') ?? '?')
    }
    const headers = { 'Idempotency-Key': HOOKS }
    const unmade = await broken.ask({ path: HOOKS, key: customer, body: HOOK, headers })
    expectRefusal(unmade, 'A', { status: 500, code: 'internal_error' })
    await broken.database.query('alter table gone rename to idempotent_attempts')
    for (const [endpoint, body] of [
      ['/videos', film()],
      [HOOKS, HOOK],
    ] as const) {
      // The key was freed, and nothing was made.
      expect((await broken.ask({ path: endpoint, key: customer })).json).toMatchObject({ data: [] })
      const again = await broken.ask({ path: endpoint, key: customer, body, headers: { 'Idempotency-Key': endpoint } })
      expect([again.status, again.headers.get('Idempotency-Replayed')]).toEqual([endpoint === HOOKS ? 201 : 202, null])
    }
    await broken.close()
  })

  test('the database away: 503, each envelope with its own code (E14), and health goes on', async () => {
    const cut = await openAskedGateway({ settings: SETTINGS })
    const known = await cut.customer()
    const fresh = await cut.customer()
    expect((await cut.ask({ path: balance, key: known })).status).toBe(200)
    await cut.database.close()
    const inA = { status: 503, code: 'internal_error', retryAfter: 1 }
    const inB = { status: 503, code: 'upstream_unavailable', retryAfter: 1 }
    expectRefusal(await cut.ask({ path: balance, key: known }), 'A', inA)
    expectRefusal(await cut.ask({ path: balance, key: fresh }), 'A', inA)
    expectRefusal(await cut.ask({ path: '/models', key: fresh }), 'B', inB)
    expectRefusal(await cut.ask({ path, key: fresh, body: chat() }), 'B', inB)
    for (const key of [known, fresh]) {
      expectRefusal(await cut.ask({ path: '/videos', key, body: film() }), 'B', inB)
      expectRefusal(await cut.ask({ path: `/videos/${UUID}/content`, key }), 'B', inB)
      expectRefusal(await cut.ask({ path: HOOKS, key }), 'A', inA)
      expectRefusal(await cut.ask({ path: '/manage/v1/deliveries', key }), 'A', inA)
    }
    expect((await cut.ask({ path: '/health' })).json).toEqual({ status: 'ok' })
    await cut.close()
  })
})

test('every row of the tables is here or elsewhere', () => {
  const rows = Object.entries(TABLES).flatMap(([envelope, byStatus]) =>
    Object.entries(byStatus).flatMap(([status, codes]) => codes.map((code) => `${envelope} ${status} ${code}`)),
  )
  const shown = new Set([
    ...[...envelopeA, ...ofPayments()].map(([, { status, code }]) => `A ${status} ${code}`),
    ...envelopeB.map(([, { status, code }]) => `B ${status} ${code}`),
    ...BY_THEMSELVES,
  ])
  const elsewhere = [...OF_DEPOSITS, ...OF_INSTANCES]
  expect(rows.filter((row) => !shown.has(row) && !elsewhere.includes(row))).toEqual([])
  expect(elsewhere.filter((row) => shown.has(row) || !rows.includes(row))).toEqual([])
})

test.each([...OF_DEPOSITS])('elsewhere: %s', async (row) => {
  const [, status, code] = row.split(' ')
  const tests = await readFile(join(import.meta.dirname, '../../src/payments/deposits/gateway.test.ts'), 'utf8')
  expect(tests).toMatch(new RegExp(`${status}, (json: \\{ code: )?'${code}'`))
})

test.each([...OF_INSTANCES])('elsewhere: %s', async (row) => {
  const [, status, code] = row.split(' ')
  const tests = await readFile(join(import.meta.dirname, 'instances.test.ts'), 'utf8')
  expect(tests).toMatch(
    code === 'operation_failed' ? /error: \{ code: 'operation_failed'/ : `status: ${status}, code: '${code}'`,
  )
})

/** Lets everything outside this function have its turn. */
function turn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve))
}

/** Seconds of a window that began a moment ago: from 1 to `most`. */
function atMost(header: string | null, most: number): number {
  const seconds = Number(header)
  expect(seconds).toBeGreaterThanOrEqual(1)
  expect(seconds).toBeLessThanOrEqual(most)
  return seconds
}
