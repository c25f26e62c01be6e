/** The most top-ups within an hour, through the whole gateway with the local payment provider. */

import { afterAll, beforeAll, expect, test } from 'bun:test'
import { type AskedGateway, openAskedGateway } from '../../../test/acceptance/ask.ts'
import type { Answer } from '../../../test/acceptance/description.ts'
import { makeKey, type TestKey } from '../../../test/customer.ts'
import { systemClock } from '../../infra/clock.ts'
import { HOUR_MS, MINUTE_MS, SECOND_MS } from '../../lib/time.ts'

const SETTINGS = `
public_url: https://tollgate.test
payments: { provider: local, top_up_min_cents: 500, top_up_max_cents: 50000 }
rate_limit: { requests_per_second: 10000, burst: 100000 }
new_account_rate_limit: { requests_per_second: 10000, burst: 100000 }
plans:
  - { key: small, name: Small, input_tokens_monthly: 9, output_tokens_monthly: 9, weekly_tokens: 9, payment_price: local_2000_month }
`

let gateway: AskedGateway
/** The wall's clock, as many milliseconds ahead. */
let aheadMs = 0
const clock = { ...systemClock, now: () => systemClock.now() + aheadMs }
beforeAll(async () => {
  gateway = await openAskedGateway({ settings: SETTINGS, clock })
})
afterAll(() => gateway.close())

const topUp = (key: TestKey) => gateway.ask({ path: '/manage/v1/top-ups', key, body: { amount_cents: 500 } })

/** Begins so many top-ups at once; returns how many were refused with 429, where all others were begun. */
async function refusedOf(key: TestKey, count: number): Promise<number> {
  const answers = await Promise.all(Array.from({ length: count }, () => topUp(key)))
  const refused = answers.filter(({ status }) => status === 429)
  for (const { json } of refused) expect(json).toMatchObject({ code: 'rate_limited' })
  expect(answers.filter(({ status }) => status === 201)).toHaveLength(count - refused.length)
  return refused.length
}

test('members who have begun all that they may leave admins their own, and each caller has thirty at most', async () => {
  const admin = await gateway.customer({ admin: true, cents: 0 })
  const keyOf = (isAdmin: boolean) => makeKey(gateway.database, admin.organizationId, { admin: isAdmin })
  const members = [await keyOf(false), await keyOf(false), await keyOf(false)] as const
  expect(await refusedOf(members[0], 32)).toBe(2)
  expect(await refusedOf(members[1], 28)).toBe(0)
  expect(await refusedOf(members[2], 4)).toBe(2)
  expect((await topUp(members[2])).text).toContain('60 top-ups within an hour')
  expect(await refusedOf(admin, 32)).toBe(2)
  expect((await topUp(await keyOf(true))).status).toBe(201)
  expect((await topUp(await gateway.customer({ cents: 0 }))).status).toBe(201)
})

/** Turns the clock by the `Retry-After` of a refusal, after which the same request is granted. */
async function waitedOut(ask: () => Promise<Answer>, granted: number): Promise<void> {
  const refused = await ask()
  const waitSeconds = Number(refused.headers.get('Retry-After'))
  expect([refused.status, waitSeconds]).toEqual([429, expect.any(Number)])
  expect(waitSeconds).toBeGreaterThan(0.9 * (40 * 60))
  expect(waitSeconds).toBeLessThanOrEqual(40 * 60 + 1)
  aheadMs += (waitSeconds - 60) * SECOND_MS
  expect((await ask()).status).toBe(429)
  aheadMs += MINUTE_MS
  expect((await ask()).status).toBe(granted)
}

test.each<[name: string, path: string, granted: number]>([
  ['top-ups', '/manage/v1/top-ups', 201],
  ['portals', '/billing/subscription/portal', 200],
  ['checkouts of subscriptions', '/billing/subscription/checkout', 200],
])(
  'the Retry-After of too many %s is the true wait: until the thirtieth newest is an hour old',
  async (_, path, granted) => {
    const key = await gateway.customer({ admin: true, cents: 0 })
    if (path !== '/manage/v1/top-ups') await topUp(key)
    const body = path === '/manage/v1/top-ups' ? { amount_cents: 500 } : {}
    const ask = () => gateway.ask({ method: 'POST', path, key, body })
    await ask()
    aheadMs += 20 * MINUTE_MS
    for (let count = 1; count < 30; count += 1) expect((await ask()).status).toBe(granted)
    await waitedOut(ask, granted)
    aheadMs += HOUR_MS
  },
)

test('where callers together have used up theirs, the Retry-After is the longer of the two waits', async () => {
  const admin = await gateway.customer({ admin: true, cents: 0 })
  const other = await makeKey(gateway.database, admin.organizationId, { admin: true })
  expect(await refusedOf(admin, 30)).toBe(0)
  aheadMs += 20 * MINUTE_MS
  expect(await refusedOf(other, 30)).toBe(0)
  const waits = [admin, other].map(async (key) => Number((await topUp(key)).headers.get('Retry-After')))
  const [ofAdmin = 0, ofOther = 0] = await Promise.all(waits)
  expect(ofAdmin).toBeLessThanOrEqual(40 * 60 + 1)
  expect(ofOther).toBeGreaterThan(59 * 60)
})
