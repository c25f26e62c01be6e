import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { type AskedGateway, openAskedGateway } from '../../../test/acceptance/ask.ts'
import { directed, film, picture, SETTINGS, words } from '../../../test/acceptance/catalog.ts'
import { expectRefusal } from '../../../test/acceptance/refusals.ts'
import type { TestKey } from '../../../test/customer.ts'
import { metricsPage } from '../../../test/metricsPage.ts'
import { setSubscription } from '../../billing/plans/setSubscription.ts'
import { systemClock } from '../../infra/clock.ts'
import { DAY_MS } from '../../lib/time.ts'

const FREE = `
  - id: svc/free
    context_length: 4096
    pricing: { input_per_1m_tokens_cents: 0, output_per_1m_tokens_cents: 0 }
    targets: [{ provider: sandbox, model: sandbox }]
plans:`

let gateway: AskedGateway
beforeAll(async () => {
  gateway = await openAskedGateway({ settings: SETTINGS.replace('\nplans:', FREE) })
})
afterAll(() => gateway.close())

const ask = (key: TestKey, model: string) =>
  gateway.ask({ path: `/inference/preflight?model=${encodeURIComponent(model)}`, key })

test('an id, an alias and the economy tier are answered with the canonical id', async () => {
  const key = await gateway.customer()
  const plain = {
    model: 'svc/demo',
    verdict: 'ok',
    message: 'This call is paid for from your credit.',
    plan_covered: false,
    subscribed: false,
    funded: true,
  }
  for (const name of ['svc/demo', 'vendor/demo', 'demo:economy', 'svc/demo:economy']) {
    expect((await ask(key, name)).json).toEqual(plain)
  }
  expect((await ask(key, 'covered')).json).toMatchObject({ model: 'svc/covered', plan_covered: true, reason: 'payg' })
})

describe('is refused', () => {
  test.each([
    ['', 400, 'invalid_request'],
    ['?model=', 400, 'invalid_request'],
    ['?model=svc/x', 404, 'model_not_found'],
    ['?model=svc/covered:economy', 404, 'model_not_found'],
    ['?model=svc/soon', 404, 'model_not_found'],
    ['?model=svc/retired', 404, 'model_not_found'],
  ])('%p', async (query, status, code) => {
    const answer = await gateway.ask({ path: `/inference/preflight${query}`, key: await gateway.customer() })
    expectRefusal(answer, 'B', { status, code, param: 'model' })
  })

  test('an unknown parameter, and a key without the scope', async () => {
    const path = '/inference/preflight?model=svc/demo'
    const odd = await gateway.ask({ path: `${path}&x=1`, key: await gateway.customer() })
    expectRefusal(odd, 'B', { status: 400, code: 'unsupported_parameter', param: 'x' })
    const key = await gateway.customer({ scopes: 'billing:read' })
    expectRefusal(await gateway.ask({ path, key }), 'B', { status: 403, code: 'insufficient_scope' })
  })
})

test('a model that costs nothing is served without credit, as it is said', async () => {
  const key = await gateway.customer({ cents: 0 })
  expect((await ask(key, 'svc/free')).json).toMatchObject({ verdict: 'ok', funded: false })
  const body = { model: 'svc/free', messages: [{ role: 'user', content: 'Hello.' }] }
  expect((await gateway.ask({ path: '/chat/completions', key, body })).status).toBe(200)
})

describe('a balance that may not cover a chat call without max_tokens', () => {
  const HINT = 'smaller max_tokens may be needed'
  /** A token costs a cent, and it puts out 4,096 at most. The prompt below holds 116, and without max_tokens 256 beside it. */
  const DEAR = 'svc/dear'
  const chat = (key: TestKey, more: object) =>
    gateway.ask({
      path: '/chat/completions',
      key,
      body: directed('prompt_tokens=2 tokens=2', { model: DEAR, ...more }),
    })

  test('preflight says so, verdict and funded stay; so does the 402; and with a smaller max_tokens it is served', async () => {
    const key = await gateway.customer({ cents: 200 })
    const said = (await ask(key, DEAR)).json as { message: string }
    expect(said).toMatchObject({ verdict: 'ok', funded: true })
    expect(said.message).toContain(HINT)
    expect(said).not.toHaveProperty('reason')
    const refused = await chat(key, {})
    expectRefusal(refused, 'B', { status: 402, code: 'insufficient_balance', says: new RegExp(HINT) })
    expect((await chat(key, { max_tokens: 2 })).status).toBe(200)
  })

  test('one that covers it is told nothing', async () => {
    const key = await gateway.customer({ cents: 4_096 })
    expect((await ask(key, DEAR)).json).toMatchObject({ message: 'This call is paid for from your credit.' })
    const short = await gateway.customer({ cents: 4_095 })
    expect(((await ask(short, DEAR)).json as { message: string }).message).toContain(HINT)
  })

  test('other modalities have no max_tokens: neither preflight nor the 402 names it', async () => {
    const key = await gateway.customer({ cents: 0 })
    for (const [path, body] of [
      ['/embeddings', words()],
      ['/images/generations', picture()],
      ['/videos', film()],
    ] as const) {
      const refused = await gateway.ask({ path, key, body })
      expectRefusal(refused, 'B', { status: 402, code: 'insufficient_balance' })
      expect(refused.text).not.toContain('max_tokens')
    }
    const cent = await gateway.customer({ cents: 1 })
    for (const model of ['svc/words', 'svc/picture', 'svc/film']) {
      const { message } = (await ask(cent, model)).json as { message: string }
      expect(message).not.toContain('max_tokens')
    }
  })
})

test('nothing is written', async () => {
  const key = await gateway.customer({ cents: 0 })
  const id = key.organizationId
  const written = async () => {
    const counts = await gateway.database.query<Record<string, bigint>>(
      `select (select count(*) from accounts where organization_id = $1::uuid) as accounts,
         (select count(*) from account_shares where organization_id = $1::uuid) as shares,
         (select count(*) from charges where organization_id = $1::uuid) as charges,
         (select count(*) from ledger_entries where organization_id = $1::uuid) as entries,
         (select count(*) from usage_hours where organization_id = $1::uuid) as rollups`,
      [id],
    )
    return counts[0]
  }
  for (const name of ['svc/demo', 'covered']) {
    expect((await ask(key, name)).json).toMatchObject({
      verdict: 'block',
      reason: 'insufficient_balance',
      funded: false,
    })
  }
  expect(await written()).toEqual({ accounts: 1n, shares: 0n, charges: 0n, entries: 0n, rollups: 0n })
})

test('facts that can not be read never block', async () => {
  const cut = await openAskedGateway({ settings: SETTINGS })
  const key = await cut.customer({ cents: 0 })
  const path = '/inference/preflight?model=svc/covered'
  expect((await cut.ask({ path, key })).json).toMatchObject({ verdict: 'block' })
  await cut.database.query('alter table accounts rename to gone')
  expect((await cut.ask({ path, key })).json).toMatchObject({ verdict: 'ok', reason: 'preflight_unavailable' })
  await cut.database.query('alter table gone rename to accounts')
  await cut.database.query('alter table plan_hours rename to gone')
  const fresh = await cut.customer({ cents: 0 })
  expect((await cut.ask({ path, key: fresh })).json).toMatchObject({ verdict: 'ok', reason: 'preflight_unavailable' })
  // A real call counts as pay-as-you-go then, and is counted.
  const body = { model: 'svc/covered', messages: [{ role: 'user', content: 'Hello.' }] }
  const other = await cut.customer()
  const active = {
    status: 'active',
    periodStartMs: 0,
    periodEndMs: systemClock.now() + DAY_MS,
    cancelAtPeriodEnd: false,
  }
  await setSubscription(cut.database, other.organizationId, { planKey: 'large', ...active }, systemClock.now())
  const paid = await cut.ask({ path: '/chat/completions', key: other, body })
  expect([paid.status, Number(paid.headers.get('Svc-Cost-Microcents')) > 0]).toEqual([200, true])
  // And the subscription is shown without what is used.
  const shown = (await cut.ask({ path: '/billing/subscription', key: other })).json as Record<string, unknown>
  expect([shown['subscribed'], shown['usage']]).toEqual([true, undefined])
  const metrics = await metricsPage(cut.app)
  expect(metrics).toMatch(/^tollgate_plan_meters_unreadable_total [1-9]/m)
  await cut.database.query('alter table gone rename to plan_hours')
  await cut.close()
})
