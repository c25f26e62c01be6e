/** The most top-ups within an hour, through the whole gateway with the local payment provider. */

import { afterAll, beforeAll, expect, test } from 'bun:test'
import { type AskedGateway, openAskedGateway } from '../../../test/acceptance/ask.ts'
import { makeKey, type TestKey } from '../../../test/customer.ts'

const SETTINGS = `
public_url: https://tollgate.test
payments: { provider: local, top_up_min_cents: 500, top_up_max_cents: 50000 }
rate_limit: { requests_per_second: 10000, burst: 100000 }
new_account_rate_limit: { requests_per_second: 10000, burst: 100000 }
`

let gateway: AskedGateway
beforeAll(async () => {
  gateway = await openAskedGateway({ settings: SETTINGS })
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
