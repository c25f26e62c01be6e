/** The bounds on what one customer has asked of the payment provider, whatever its requests come to. */

import { afterAll, beforeAll, expect, test } from 'bun:test'
import { type AskedGateway, openAskedGateway } from '../../../test/acceptance/ask.ts'
import { SETTINGS } from '../../../test/acceptance/catalog.ts'
import { TurnedClock } from '../../../test/clock.ts'
import { createOrganizationTurns } from '../../http/limits/organizationTurns.ts'
import { createRateLimiter } from '../../http/limits/rateLimit.ts'
import { ASKING_TURNS, createProviderAsks } from './asks.ts'

let gateway: AskedGateway
beforeAll(async () => {
  gateway = await openAskedGateway({
    settings: `${SETTINGS}\npublic_url: https://tollgate.test\npayments: { provider: local }\n`,
  })
})
afterAll(() => gateway.close())

function openProviderAsks() {
  const clock = new TurnedClock()
  return createProviderAsks({ limiter: createRateLimiter(clock), turns: createOrganizationTurns(clock, ASKING_TURNS) })
}

const SWITCH_ON = { enabled: true, threshold_cents: 100, amount_cents: 1_000 }

test('the 101st request at once that has the provider asked is refused, whichever it is; switching auto-pay off never is', async () => {
  const key = await gateway.customer({ admin: true })
  const put = (body: object) => gateway.ask({ method: 'PUT', path: '/manage/v1/auto-pay', key, body })
  for (let time = 0; time < 100; time += 1) {
    expect((await put(SWITCH_ON)).json).toMatchObject({ code: 'payment_method_missing' })
  }
  const post = (path: string, body: object) => gateway.ask({ path, key, body })
  const refused = await Promise.all([
    put(SWITCH_ON),
    post('/manage/v1/top-ups', { amount_cents: 1_000 }),
    post('/billing/subscription/checkout', {}),
    post('/billing/subscription/portal', {}),
  ])
  for (const { status, json, headers } of refused) {
    expect([status, json]).toMatchObject([429, { code: 'rate_limited' }])
    expect(Number(headers.get('Retry-After'))).toBeWithin(1, 13)
  }
  expect((await put({ enabled: false })).status).toBe(200)
  const other = await gateway.customer({ admin: true })
  const topUp = await gateway.ask({ path: '/manage/v1/top-ups', key: other, body: { amount_cents: 1_000 } })
  expect(topUp.status).toBe(201)
})

test('requests of one organization ask the provider one after another, and those of others do not wait for them', async () => {
  const asks = openProviderAsks()
  const begun: string[] = []
  const ends: (() => void)[] = []
  const ask = (organizationId: string, name: string) =>
    asks.take(organizationId, async () => {
      begun.push(name)
      await new Promise<void>((resolve) => ends.push(resolve))
      return new Response(name)
    })
  const [first, second, other] = [ask('one', 'first'), ask('one', 'second'), ask('other', 'other')]
  await new Promise((resolve) => setImmediate(resolve))
  expect(begun).toEqual(['first', 'other'])
  ends[0]?.()
  await first
  await new Promise((resolve) => setImmediate(resolve))
  expect(begun).toEqual(['first', 'other', 'second'])
  for (const end of ends) end()
  await Promise.all([second, other])
})
