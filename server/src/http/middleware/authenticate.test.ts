import { describe, expect, test } from 'bun:test'
import { exchangeOf, pipelineParts, TEST_KEY, TEST_SESSION } from '../../../test/exchange.ts'
import { refusal } from '../../lib/errors.ts'
import { ok, refused } from '../../lib/result.ts'
import type { PendingRequest } from '../pipeline.ts'
import { withAddress, withKey, withKeyOrSession, withSession } from './authenticate.ts'

const NO_KEY = refusal('unauthenticated', 'no key')
const WRONG = refusal('invalid_api_key', 'wrong')
const ENDED = refusal('unauthenticated', 'it has ended')

const asked: string[] = []
const keysAlone = pipelineParts({
  authenticate: (authorization, address) => {
    if (authorization === null) return refused(NO_KEY)
    if (authorization === 'Bearer later') return Promise.resolve(ok(TEST_KEY))
    if (authorization === 'Bearer key') return ok(TEST_KEY)
    asked.push(address())
    return refused(WRONG)
  },
  clientAddress: (socket, forwardedFor) => forwardedFor ?? socket,
})
const both = {
  ...keysAlone,
  sessions: {
    cookie: 'sid',
    csrfToken: (token: string) => `of ${token}`,
    origin: 'https://gateway.test',
    authenticate: (token: string) => {
      if (token === 'later') return Promise.resolve(ok(TEST_SESSION))
      return token === 'good' ? ok(TEST_SESSION) : refused(ENDED)
    },
  },
}

async function callerOf(
  step: typeof withAddress extends (parts: never) => infer Step ? Step : never,
  headers: Readonly<Record<string, string>>,
) {
  const exchange: PendingRequest = exchangeOf('/v1/things', { headers })
  const found = await step(exchange)
  return found === null ? exchange.principal.kind : `${found.code}: ${found.message}`
}

const KEY = { Authorization: 'Bearer key' }
const COOKIE = { Cookie: 'other=1; sid=good' }

describe('a route for API keys', () => {
  test.each([
    ['a key', KEY, 'apiKey'],
    ['a key that is looked up', { Authorization: 'Bearer later' }, 'apiKey'],
    ['a wrong key', { Authorization: 'Bearer wrong' }, 'invalid_api_key: wrong'],
    ['nothing', {}, 'unauthenticated: no key'],
    ['a session', COOKIE, 'unauthenticated: no key'],
  ])('%s', async (_name, headers, expected) => {
    expect(await callerOf(withKey(both), headers)).toBe(expected)
  })

  test('a key in memory is judged at once, and the address is asked for only where it counts', () => {
    asked.length = 0
    expect(withKey(both)(exchangeOf('/v1/things', { headers: KEY }))).toBeNull()
    expect(asked).toEqual([])
    withKey(both)(exchangeOf('/v1/things', { headers: { Authorization: 'Bearer x', 'X-Forwarded-For': '192.0.2.9' } }))
    expect(asked).toEqual(['192.0.2.9'])
  })
})

describe('a route for sessions', () => {
  const SIGN_IN = 'unauthenticated: You are not signed in. Sign in, then try again.'
  test.each([
    ['a session', COOKIE, 'session'],
    ['a session that is looked up', { Cookie: 'sid=later' }, 'session'],
    ['one that has ended', { Cookie: 'sid=old' }, 'unauthenticated: it has ended'],
    ['two cookies of the name', { Cookie: 'sid=good; sid=planted' }, SIGN_IN],
    ['nothing', {}, SIGN_IN],
    ['a key', KEY, SIGN_IN],
  ])('%s', async (_name, headers, expected) => {
    expect(await callerOf(withSession(both), headers)).toBe(expected)
  })

  test('lets nobody in where there are no sessions', async () => {
    expect(await callerOf(withSession(keysAlone), COOKIE)).toBe(SIGN_IN)
  })
})

describe('a route for either', () => {
  test.each([
    ['a key', KEY, 'apiKey'],
    ['a session', COOKIE, 'session'],
    ['a key and a session: the key counts', { ...KEY, ...COOKIE }, 'apiKey'],
    ['a wrong key and a session', { Authorization: 'Bearer wrong', ...COOKIE }, 'invalid_api_key: wrong'],
    ['nothing', {}, 'unauthenticated: no key'],
  ])('%s', async (_name, headers, expected) => {
    expect(await callerOf(withKeyOrSession(both), headers)).toBe(expected)
  })

  test('takes keys alone where there are no sessions', async () => {
    expect(await callerOf(withKeyOrSession(keysAlone), COOKIE)).toBe('unauthenticated: no key')
    expect(await callerOf(withKeyOrSession(keysAlone), KEY)).toBe('apiKey')
  })
})

test.each([
  ['192.0.2.7', '192.0.2.7'],
  ['2001:db8:1:2fe:3:4:5:6', '2001:db8:1:200::/56'],
])('a route for everybody knows its callers by their address: %s is %s', async (address, group) => {
  const exchange = exchangeOf('/v1/things', { headers: { 'X-Forwarded-For': address } })
  expect(await withAddress(both)(exchange)).toBeNull()
  expect(exchange.principal).toEqual({ kind: 'public', address: group })
})
