/** Look-ups of cookies that are no session: bounded by address, and never in the way of sessions (K5). */

import { afterAll, beforeAll, expect, test } from 'bun:test'
import { type AccountsHouse, OWNER, openAccountsHouse } from '../../../../test/accountsHouse.ts'
import type { Visitor } from '../../../../test/visitor.ts'
import { systemClock } from '../../../infra/clock.ts'
import type { Queryable } from '../../../infra/postgres/database.ts'
import { authenticateSessions } from './authenticate.ts'

let house: AccountsHouse
let owner: Visitor
beforeAll(async () => {
  house = await openAccountsHouse()
  owner = await house.owner()
})
afterAll(() => house.gateway.close())

const FLOODED = '203.0.113.9'
const ELSEWHERE = '203.0.113.10'

let drawn = 0
/** A cookie that looks like a session's. */
function stranger(): string {
  drawn += 1
  return `${drawn}`.padStart(32, 'x')
}

/** The sessions of a process. */
function openSessions() {
  const { database } = house.gateway
  let [queries, toHold] = [0, 0]
  const waiting: (() => void)[] = []
  const held: Queryable = {
    async query(text, parameters) {
      queries += 1
      if (toHold > 0) {
        toHold -= 1
        await new Promise<void>((resolve) => waiting.push(resolve))
      }
      return database.query(text, parameters)
    },
  }
  const warn = (_fields: object, text: string) => {
    throw new Error(text)
  }
  const authenticate = authenticateSessions({ database: held, clock: systemClock, log: { warn } })
  return {
    queries: () => queries,
    /** So many queries wait until {@link release}. */
    hold(count: number) {
      toHold = count
    },
    release() {
      for (const go of waiting.splice(0)) go()
    },
    /** Returns `in`, or the code of the refusal. */
    async ask(token: string, address = FLOODED): Promise<string> {
      const found = await authenticate(token, () => address)
      return found.ok ? 'in' : found.refusal.code
    },
  }
}

async function sessionOf(browser: Visitor): Promise<string> {
  expect((await browser.open('/account')).status).toBe(200)
  return browser.cookies.get('tollgate_session') ?? ''
}

test('of an address 1,000 cookies of strangers wait at most, two queries at a time; a session of the process gets in behind it', async () => {
  const sessions = openSessions()
  const known = await sessionOf(owner)
  const again = house.browser()
  await again.fill('/account/sign-in', { email: OWNER.email, password: OWNER.new_password })
  expect(await sessions.ask(known)).toBe('in')
  expect(sessions.queries()).toBe(1)
  sessions.hold(2)
  const flood = Array.from({ length: 1_002 }, () => sessions.ask(stranger()))
  expect(await sessions.ask(stranger())).toBe('upstream_unavailable')
  expect(sessions.queries()).toBe(3)
  expect(await sessions.ask(known)).toBe('in')
  const elsewhere = sessions.ask(await sessionOf(again), ELSEWHERE)
  sessions.release()
  expect(await elsewhere).toBe('in')
  expect(new Set(await Promise.all(flood))).toEqual(new Set(['unauthenticated']))
  // Two of the known session, two of one cookie each, and 1,001 cookies in three.
  expect(sessions.queries()).toBe(7)
})

test('many requests of one known session are two queries at a time, and those that wait share one, also with other sessions', async () => {
  const sessions = openSessions()
  const known = await sessionOf(owner)
  const again = house.browser()
  await again.fill('/account/sign-in', { email: OWNER.email, password: OWNER.new_password })
  const other = await sessionOf(again)
  expect([await sessions.ask(known), await sessions.ask(other)]).toEqual(['in', 'in'])
  sessions.hold(2)
  const asked = Array.from({ length: 50 }, () => sessions.ask(known))
  expect(sessions.queries()).toBe(4)
  const others = sessions.ask(other)
  sessions.release()
  expect(new Set(await Promise.all([...asked, others]))).toEqual(new Set(['in']))
  // The last one asks for both sessions.
  expect(sessions.queries()).toBe(5)
})

test('a cookie that no session can have costs no query', async () => {
  const sessions = openSessions()
  for (const token of ['', 'short', 'x'.repeat(129), `${'x'.repeat(31)}!`])
    expect(await sessions.ask(token)).toBe('unauthenticated')
  expect(sessions.queries()).toBe(0)
})

test('a known session that ends is refused at once, and is a stranger from then on', async () => {
  const sessions = openSessions()
  const browser = house.browser()
  await browser.fill('/account/sign-in', { email: OWNER.email, password: OWNER.new_password })
  const token = await sessionOf(browser)
  expect([await sessions.ask(token), await sessions.ask(token)]).toEqual(['in', 'in'])
  await browser.fill('/account', {}, { action: '/account/sign-out' })
  expect(await sessions.ask(token)).toBe('unauthenticated')
  sessions.hold(1)
  const again = sessions.ask(token)
  sessions.release()
  expect(await again).toBe('unauthenticated')
})
