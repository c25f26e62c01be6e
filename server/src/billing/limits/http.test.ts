import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { type AskedGateway, openAskedGateway } from '../../../test/acceptance/ask.ts'
import { chat, directed, SETTINGS } from '../../../test/acceptance/catalog.ts'
import type { TestKey } from '../../../test/customer.ts'
import { systemClock } from '../../infra/clock.ts'
import { DAY_MS } from '../../lib/time.ts'

const PATH = '/billing/spending-limit'
/** Goes on as the wall's, on other days: what watches over connections must not see time jump. */
let aheadMs = Date.UTC(2031, 4, 30, 12) - systemClock.now()
const clock = { ...systemClock, now: () => systemClock.now() + aheadMs }

let gateway: AskedGateway
beforeAll(async () => {
  gateway = await openAskedGateway({ settings: SETTINGS, clock })
})
afterAll(() => gateway.close())

const put = (key: TestKey, body: unknown) => gateway.ask({ method: 'PUT', path: PATH, key, body })
const get = (key: TestKey) => gateway.ask({ path: PATH, key })
/** Fewer tokens would not be believed of the prompt that says so (C4). */
const PROMPT = 9
/** A call of exactly so many cents, more than the prompt's: a token of the prompt and of the answer costs one each. */
const spend = (key: TestKey, cents: number) =>
  gateway.ask({
    path: '/chat/completions',
    key,
    body: directed(`prompt_tokens=${PROMPT} tokens=${cents - PROMPT}`, {
      model: 'svc/dear',
      max_tokens: cents - PROMPT,
    }),
  })

test('is absent until it is set, then stays as it was where a field is left out', async () => {
  const key = await gateway.customer({ admin: true })
  expect((await get(key)).status).toBe(404)
  const first = await put(key, { monthly_limit_dollars: 12.5 })
  expect(first.json).toEqual({
    monthly_limit_cents: 1_250,
    monthly_limit_dollars: 12.5,
    daily_limit_cents: null,
    daily_limit_dollars: null,
    current_month_spend_cents: 0,
    current_month_spend_dollars: 0,
    current_day_spend_cents: 0,
    percent_used: 0,
    billing_cycle_start: '2031-05-01T00:00:00.000Z',
    enforcement: 'block_launch',
    auto_terminate_hours: null,
  })
  const steps = [
    [{ daily_limit_dollars: 3, enforcement: 'stop_running', auto_terminate_hours: 8 }, [300, 'stop_running', 8]],
    [{}, [300, 'stop_running', 8]],
    [{ daily_limit_dollars: null, enforcement: null }, [300, 'stop_running', 8]],
    [{ auto_terminate_hours: null }, [300, 'stop_running', null]],
    [{ daily_limit_dollars: 0, enforcement: 'notify_only' }, [null, 'notify_only', null]],
  ] as const
  for (const [change, expected] of steps) {
    const answer = await put(key, { monthly_limit_dollars: 20, ...change })
    const shown = answer.json as Record<string, unknown>
    expect([shown['daily_limit_cents'], shown['enforcement'], shown['auto_terminate_hours']]).toEqual([...expected])
    expect((await get(key)).json).toEqual(answer.json)
  }
})

describe('is refused', () => {
  test.each([
    [{}],
    [{ monthly_limit_dollars: null }],
    [{ monthly_limit_dollars: 0.99 }],
    [{ monthly_limit_dollars: 1.001 }],
    [{ monthly_limit_dollars: '10' }],
    [{ monthly_limit_dollars: 1e10 }],
    [{ monthly_limit_dollars: 10, daily_limit_dollars: -1 }],
    [{ monthly_limit_dollars: 10, daily_limit_dollars: 0.005 }],
    [{ monthly_limit_dollars: 10, enforcement: 'stop' }],
    [{ monthly_limit_dollars: 10, auto_terminate_hours: 0 }],
    [{ monthly_limit_dollars: 10, auto_terminate_hours: 1.5 }],
    [{ monthly_limit_dollars: 10, yearly_limit_dollars: 5 }],
    [[]],
  ])('%j', async (body) => {
    const key = await gateway.customer({ admin: true })
    const answer = await put(key, body)
    expect([answer.status, (answer.json as { code: string }).code]).toEqual([422, 'validation_failed'])
    expect((await get(key)).status).toBe(404)
  })

  test('without an admin key', async () => {
    const answer = await put(await gateway.customer(), { monthly_limit_dollars: 10 })
    expect([answer.status, (answer.json as { code: string }).code]).toEqual([403, 'insufficient_scope'])
  })
})

test('a daily limit refuses what is past it, agrees with the ledger, and is free again on the next day', async () => {
  const key = await gateway.customer({ admin: true, cents: 10_000 })
  await put(key, { monthly_limit_dollars: 50, daily_limit_dollars: 5 })
  const statuses = []
  for (let call = 0; call < 6; call += 1) statuses.push((await spend(key, 100)).status)
  // A call of $1 may come to more than $2, its prompt being a token a byte at worst.
  expect(statuses).toEqual([200, 200, 200, 402, 402, 402])
  const spent = await spentCents(key)
  expect(spent).toBe(300)
  expect((await get(key)).json).toMatchObject({
    current_day_spend_cents: spent,
    current_month_spend_cents: spent,
    percent_used: spent / 50,
  })
  const refused = await gateway.ask({ path: '/chat/completions', key, body: chat({ model: 'svc/dear' }) })
  expect(refused.json).toMatchObject({ error: { code: 'quota_exceeded', type: 'billing_error' } })
  aheadMs += DAY_MS
  await spend(key, 100)
  const today = (await spentCents(key)) - spent
  expect(today).toBe(100)
  expect((await get(key)).json).toMatchObject({
    current_day_spend_cents: today,
    current_month_spend_cents: spent + today,
    billing_cycle_start: '2031-05-01T00:00:00.000Z',
  })
  aheadMs += DAY_MS
  expect((await get(key)).json).toMatchObject({
    current_day_spend_cents: 0,
    current_month_spend_cents: 0,
    billing_cycle_start: '2031-06-01T00:00:00.000Z',
  })
})

test('notify_only refuses nothing, and its figures go past 100 %', async () => {
  const key = await gateway.customer({ admin: true, cents: 10_000 })
  await put(key, { monthly_limit_dollars: 1, daily_limit_dollars: 0.5, enforcement: 'notify_only' })
  for (let call = 0; call < 3; call += 1) expect((await spend(key, 100)).status).toBe(200)
  const shown = (await get(key)).json as Record<string, number>
  expect(shown['percent_used']).toBeGreaterThan(100)
})

async function spentCents(key: TestKey): Promise<number> {
  const rows = await gateway.database.query<{ cents: bigint }>(
    'select (sum(cost_microcents) / 1000000)::bigint as cents from charges where organization_id = $1::uuid',
    [key.organizationId],
  )
  return Number(rows[0]?.cents)
}
