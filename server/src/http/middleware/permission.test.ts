import { expect, test } from 'bun:test'
import { exchangeOf, TEST_ADDRESS, TEST_KEY, TEST_SESSION } from '../../../test/exchange.ts'
import { apiKey, apiKeyOrSession, session } from '../access.ts'
import { permission } from './permission.ts'

const reader = {
  ...TEST_KEY,
  scopes: { serverless: 'none', billing: 'read', webhooks: 'none', instances: 'none' },
} as const
const adminKey = { ...TEST_KEY, admin: true }
const admin = { ...TEST_SESSION, role: 'admin' } as const

test.each([
  ['any key', apiKey('any'), reader, null],
  ['read', apiKey('billing:read'), reader, null],
  ['write', apiKey('billing:write'), reader, "This key may not do this: it needs the scope 'billing:write'."],
  [
    'another resource',
    apiKey('webhooks:read'),
    reader,
    "This key may not do this: it needs the scope 'webhooks:read'.",
  ],
  ['write includes read', apiKey('billing:read'), TEST_KEY, null],
  ["an admin's key", apiKey('billing:write', 'admin'), adminKey, null],
  ["not an admin's", apiKey('billing:write', 'admin'), TEST_KEY, "This action needs an organization admin's key."],
  [
    'the scope first',
    apiKey('billing:write', 'admin'),
    reader,
    "This key may not do this: it needs the scope 'billing:write'.",
  ],
  ['a member', session('member'), TEST_SESSION, null],
  ['an admin is a member', session('member'), admin, null],
  ['an admin', session('admin'), admin, null],
  ['a member is no admin', session('admin'), TEST_SESSION, 'This action needs an admin of the organization.'],
  ['either, by key', apiKeyOrSession('billing:read', 'member'), reader, null],
  [
    'either, by a key without the scope',
    apiKeyOrSession('billing:write', 'member'),
    reader,
    "This key may not do this: it needs the scope 'billing:write'.",
  ],
  ['either, by session: scopes are for keys', apiKeyOrSession('billing:write', 'member'), TEST_SESSION, null],
  [
    'either, by a session without the role',
    apiKeyOrSession('billing:read', 'admin'),
    TEST_SESSION,
    'This action needs an admin of the organization.',
  ],
])('%s', async (_name, access, principal, message) => {
  const refused = await permission(access)(exchangeOf('/v1/things', {}, { principal }))
  expect(refused === null ? null : [refused.code, refused.message]).toEqual(
    message === null ? null : ['insufficient_scope', message],
  )
})

test('a caller of another kind is a bug, and does not pass', () => {
  const exchange = exchangeOf('/v1/things', {}, { principal: TEST_ADDRESS })
  expect(() => permission(apiKey('any'))(exchange)).toThrow('public')
})
