/** Routes that are off by the settings: key or session, and scope or role, are checked, and the answer says that they are off (B7). */

import { afterAll, beforeAll, expect, test } from 'bun:test'
import { type AskedGateway, openAskedGateway } from '../../test/acceptance/ask.ts'
import { expectRefusal } from '../../test/acceptance/refusals.ts'
import { ACCOUNT_SETTINGS, openAccountsHouse } from '../../test/accountsHouse.ts'

const UUID = '01900000-0000-7000-8000-000000000000'

/** The routes of accounts alone, and who may ask them: admins' keys with every scope, every key, or everybody. */
const ROUTES = [
  ['GET', '/keys', 'full'],
  ['POST', '/keys', 'full'],
  ['PATCH', '/keys/{id}', 'full'],
  ['DELETE', '/keys/{id}', 'full'],
  ['POST', '/keys/{id}/rotate', 'full'],
  ['DELETE', '/key', 'any'],
  ['GET', '/members', 'full'],
  ['PATCH', '/members/{id}', 'full'],
  ['DELETE', '/members/{id}', 'full'],
  ['GET', '/invitations', 'full'],
  ['POST', '/invitations', 'full'],
  ['DELETE', '/invitations/{id}', 'full'],
  ['GET', '/organization', 'full'],
  ['PATCH', '/organization', 'full'],
  ['DELETE', '/organization', 'any'],
  ['GET', '/audit', 'full'],
  ['GET', '/session', 'any'],
  ['PATCH', '/session', 'any'],
  ['GET', '/sessions', 'any'],
  ['DELETE', '/sessions/{id}', 'any'],
  ['GET', '/account/export', 'any'],
  ['PUT', '/account/erasure', 'any'],
  ['POST', '/device/code', 'everybody'],
  ['POST', '/device/token', 'everybody'],
] as const

let gateway: AskedGateway
beforeAll(async () => {
  gateway = await openAskedGateway()
})
afterAll(() => gateway.close())

test.each(ROUTES)(
  '%s %s, for %s: 404 "not enabled on this server" after the check of key and scope',
  async (method, route, access) => {
    const path = `/manage/v1${route.replace('{id}', UUID)}`
    const ask = (key?: { readonly key: string }) =>
      gateway.ask({ method, path, key, ...(method === 'GET' || method === 'DELETE' ? {} : { body: {} }) })
    const off = { status: 404, code: 'not_found', says: /not enabled on this server/ }
    if (access === 'everybody') return expectRefusal(await ask(), 'A', off)
    expectRefusal(await ask(), 'A', { status: 401, code: 'unauthenticated' })
    expectRefusal(await ask({ key: 'svc_live_short' }), 'A', { status: 401, code: 'invalid_api_key' })
    const needs = { status: 403, code: 'insufficient_scope', says: /needs an organization admin's key/ }
    const plain = await ask(await gateway.customer({ scopes: 'full_access' }))
    expectRefusal(plain, 'A', access === 'full' ? needs : off)
    expectRefusal(await ask(await gateway.customer({ scopes: 'full_access', admin: true })), 'A', off)
  },
)

/** The other routes that are off here, and the codes of their answers. */
const OFF: readonly [method: string, path: string, code: string][] = [
  ['GET', '/billing/deposits', 'not-found'],
  ['GET', '/billing/deposits/d1', 'not-found'],
  ['POST', '/billing/deposits/crypto', 'not-found'],
  ['POST', '/billing/subscription/checkout', 'payment-source-unavailable'],
  ['POST', '/billing/subscription/portal', 'payment-source-unavailable'],
  ['GET', '/instances', 'not_found'],
  ['POST', '/instances', 'not_found'],
  ['GET', `/operations/${UUID}`, 'not_found'],
  ['POST', '/manage/v1/top-ups', 'not_found'],
  ['GET', '/manage/v1/auto-pay', 'not_found'],
]

test('a person who is signed in hears that these are off, whatever the body, and not that there is no key', async () => {
  const house = await openAccountsHouse()
  const owner = await house.owner()
  const answers: [string, string, string][] = []
  for (const [method, path] of OFF) {
    const response = await owner.call(method, path, method === 'POST' ? { amount_cents: 500 } : undefined)
    answers.push([method, path, (await response.json()).code])
  }
  expect(answers).toEqual([...OFF] as typeof answers)
  const member = await house.join(owner, 'm@example.com')
  const codeOf = async (method: string, path: string) => (await (await member.call(method, path)).json()).code
  expect(await codeOf('GET', '/billing/deposits')).toBe('not-found')
  expect(await codeOf('GET', '/manage/v1/auto-pay')).toBe('insufficient_scope')
  await house.gateway.close()
})

test('these are all the routes of accounts but those for operators, of whom nobody hears, and none is described', async () => {
  const operations = ({ managed }: AskedGateway) =>
    Object.entries(managed.paths).flatMap(([path, methods]) =>
      Object.keys(methods ?? {}).map((method) => `${method.toUpperCase()} ${path}`),
    )
  const on = await openAskedGateway({ settings: ACCOUNT_SETTINGS, beside: gateway })
  await on.close()
  const without = new Set(operations(gateway))
  const ofAccounts = operations(on).filter((each) => !without.has(each) && !each.includes(' /operator/'))
  expect(ofAccounts.toSorted()).toEqual(ROUTES.map(([method, path]) => `${method} ${path}`).toSorted())
})
