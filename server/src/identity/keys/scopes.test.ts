import { expect, test } from 'bun:test'
import { fc } from '../../../test/properties.ts'
import { allows } from '../../http/middleware/permission.ts'
import type { Permission } from '../../http/principal.ts'
import { parseScopes, printScopes, type Scopes } from './scopes.ts'

const RESOURCES = ['serverless', 'billing', 'webhooks'] as const
const LEVELS = ['none', 'read', 'write'] as const
const PERMISSIONS = RESOURCES.flatMap((resource) => [`${resource}:read`, `${resource}:write`] as Permission[])

function scopes(text: string): Scopes {
  const parsed = parseScopes(text)
  if (!parsed.ok) throw new Error(parsed.refusal.message)
  return parsed.value
}

const anyList = fc
  .shuffledSubarray([...RESOURCES], { minLength: 1 })
  .chain((resources) =>
    fc.tuple(...resources.map((resource) => fc.constantFrom(...LEVELS).map((level) => [resource, level] as const))),
  )

test('a list grants exactly what it names: write includes read, a resource not named is none', () => {
  fc.assert(
    fc.property(anyList, (list) => {
      const parsed = scopes(list.map(([resource, level]) => `${resource}:${level}`).join(','))
      for (const resource of RESOURCES) {
        const level = list.find(([named]) => named === resource)?.[1] ?? 'none'
        expect(allows(parsed, `${resource}:read`)).toBe(level !== 'none')
        expect(allows(parsed, `${resource}:write`)).toBe(level === 'write')
      }
    }),
  )
})

test('the canonical text reads back as the same scopes and is its own canonical text', () => {
  fc.assert(
    fc.property(anyList, (list) => {
      const parsed = scopes(list.map(([resource, level]) => `${resource}:${level}`).join(', '))
      expect(scopes(printScopes(parsed))).toEqual(parsed)
      expect(printScopes(scopes(printScopes(parsed)))).toBe(printScopes(parsed))
    }),
  )
})

test('full_access allows everything, read_only every read and no write', () => {
  for (const permission of PERMISSIONS) {
    expect(allows(scopes('full_access'), permission)).toBe(true)
    expect(allows(scopes('read_only'), permission)).toBe(permission.endsWith(':read'))
  }
  expect(printScopes(scopes(' full_access '))).toBe('full_access')
  expect(printScopes(scopes('read_only'))).toBe('read_only')
})

test('naming all three with write is not full_access: it does not grow when a resource is added', () => {
  expect(printScopes(scopes('webhooks:write,billing:write,serverless:write'))).toBe(
    'serverless:write,billing:write,webhooks:write',
  )
})

test('a key may be made to do nothing', () => {
  const nothing = scopes('serverless:none')
  for (const permission of PERMISSIONS) expect(allows(nothing, permission)).toBe(false)
  expect(scopes(printScopes(nothing))).toEqual(nothing)
})

test.each([
  [''],
  ['serverless'],
  ['serverless:'],
  ['serverless:admin'],
  ['serverless:write:read'],
  ['Serverless:write'],
  ['serverless:write,'],
  ['serverless:write,serverless:read'],
  ['full_access,billing:none'],
  ['toString:read'],
  ['constructor'],
])('the scope %p is refused with what to do', (text) => {
  const parsed = parseScopes(text)
  expect(parsed).toMatchObject({ ok: false, refusal: { code: 'validation_failed', param: 'scope' } })
  if (!parsed.ok) expect(parsed.refusal.message).toContain('such as serverless:write,billing:read')
})
