import { afterAll, beforeAll, expect, test } from 'bun:test'
import { type AccountsHouse, OWNER, openAccountsHouse } from '../../../../test/accountsHouse.ts'
import { SetClock } from '../../../../test/setClock.ts'
import { DAY_MS, HOUR_MS, toTimestamp } from '../../../lib/time.ts'

/** Far from the date of any machine that runs this. */
const clock = new SetClock(Date.UTC(2040, 0, 15, 12))
let house: AccountsHouse
beforeAll(async () => {
  house = await openAccountsHouse({ clock })
  await house.owner()
}, 60_000)
afterAll(() => house.gateway.close())

test('a sign-in by password begins and ends by the clock that all processes have, not by the machine’s (E20)', async () => {
  const browser = house.browser()
  const signedIn = await browser.fill('/account/sign-in', { email: OWNER.email, password: OWNER.new_password })
  expect(signedIn.location).toBe('/account')
  const [session] = await house.gateway.database.query<{ created_at: Date; updated_at: Date; expires_at: Date }>(
    'select created_at, updated_at, expires_at from sessions order by created_at desc, expires_at desc limit 1',
  )
  const dates = [session?.created_at, session?.updated_at].map((date) => toTimestamp(date?.getTime() ?? 0))
  expect(dates).toEqual([toTimestamp(clock.now()), toTimestamp(clock.now())])
  const lifeMs = (session?.expires_at.getTime() ?? 0) - clock.now()
  expect(lifeMs % DAY_MS).toBe(0)
  expect(lifeMs).toBeGreaterThan(0)
  clock.set(clock.now() + lifeMs - HOUR_MS)
  expect((await browser.open('/account')).status).toBe(200)
  clock.set(clock.now() + HOUR_MS)
  expect((await browser.open('/account')).location).toBe('/account/sign-in')
})
