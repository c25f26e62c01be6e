import { afterAll, beforeAll, expect, test } from 'bun:test'
import { type AccountsHouse, openAccountsHouse } from '../../../../test/accountsHouse.ts'
import { systemClock } from '../../../infra/clock.ts'
import { DAY_MS } from '../../../lib/time.ts'
import { sweepInvitations } from './erase.ts'

let house: AccountsHouse
beforeAll(async () => {
  house = await openAccountsHouse()
}, 60_000)
afterAll(() => house.gateway.close())

test('invitations and their links are removed 30 days after they expired, whatever became of them', async () => {
  const owner = await house.owner()
  const { database } = house.gateway
  for (const email of ['withdrawn@example.com', 'open@example.com'])
    expect((await owner.call('POST', '/manage/v1/invitations', { email })).status).toBe(201)
  await house.join(owner, 'accepted@example.com')
  await database.query("update invitations set withdrawn_at = now() where email = 'withdrawn@example.com'")
  const [{ expires_at: expiresAt } = { expires_at: new Date(0) }] = await database.query<{ expires_at: Date }>(
    'select max(expires_at) as expires_at from invitations',
  )
  await house.linkTo('open@example.com')
  const sweep = (nowMs: number, atMost = 1_000) =>
    sweepInvitations({ database, clock: { ...systemClock, now: () => nowMs } }, atMost)
  expect(await sweep(expiresAt.getTime() + 29 * DAY_MS)).toBe(0)
  const pastMs = expiresAt.getTime() + 30 * DAY_MS + 1
  expect([await sweep(pastMs, 2), await sweep(pastMs, 2), await sweep(pastMs, 2)]).toEqual([2, 1, 0])
  expect(await database.query("select 1 from account_links where purpose = 'invitation'")).toEqual([])
  expect((await owner.call('GET', '/manage/v1/invitations')).status).toBe(200)
})
