import { describe, expect, test } from 'bun:test'
import { SCOPE_RESOURCES } from '../../../http/principal.ts'
import { parseScopes, printScopes } from '../../keys/scopes.ts'
import { narrowScopes } from './deviceLogin.ts'
import { drawUserCode, printUserCode, readUserCode } from './userCode.ts'

describe('scopes that are given', () => {
  test.each([
    ['full_access', 'write write write write', 'full_access'],
    ['full_access', 'write read none none', 'serverless:write,billing:read'],
    ['full_access', 'read read read read', 'serverless:read,billing:read,webhooks:read,instances:read'],
    ['read_only', 'read read read read', 'read_only'],
    ['read_only', 'write read read read', null],
    ['serverless:read', 'read none none none', 'serverless:read'],
    ['serverless:read', 'read read none none', null],
    ['full_access', 'none none none none', null],
    ['full_access', 'write write write', null],
    ['full_access', 'constructor write write write', null],
  ])('of %s, chosen %s: %s', (asked, chosen, granted) => {
    const scopes = parseScopes(asked)
    if (!scopes.ok) throw new Error(asked)
    const [serverless = '', billing = '', webhooks = '', instances = ''] = chosen.split(' ')
    const narrowed = narrowScopes(
      scopes.value,
      SCOPE_RESOURCES,
      (resource) => ({ serverless, billing, webhooks, instances })[resource],
    )
    expect(narrowed.ok ? printScopes(narrowed.value) : null).toBe(granted)
  })

  test.each([
    ['full_access', 'write write write', '', 'serverless:write,billing:write,webhooks:write'],
    ['read_only', 'read read read', '', 'serverless:read,billing:read,webhooks:read'],
    ['full_access', 'write write write', "an admin's", 'full_access'],
    ['full_access', 'write write read', "an admin's", 'serverless:write,billing:write,webhooks:read'],
    ['full_access', 'write write read', '', 'serverless:write,billing:write,webhooks:read'],
    ['serverless:read', 'read none none', '', 'serverless:read'],
    ['serverless:read,instances:write', 'none none none', '', null],
  ])('of %s on a server without instances, chosen %s, %s: %s', (asked, chosen, admin, granted) => {
    const scopes = parseScopes(asked)
    if (!scopes.ok) throw new Error(asked)
    const [serverless = '', billing = '', webhooks = ''] = chosen.split(' ')
    const offered = SCOPE_RESOURCES.filter((resource) => resource !== 'instances')
    const levels = { serverless, billing, webhooks, instances: 'write' }
    const narrowed = narrowScopes(scopes.value, offered, (resource) => levels[resource], admin !== '')
    expect(narrowed.ok ? printScopes(narrowed.value) : null).toBe(granted)
  })
})

describe('a code that is typed', () => {
  test.each([
    ['BCDF-GHJK', 'BCDFGHJK'],
    [' bcdf ghjk ', 'BCDFGHJK'],
    ['BCDFGHJK', 'BCDFGHJK'],
    ['BCDF-GHJ', null],
    ['BCDF-GHJKL', null],
    ['ABCD-EFGH', null],
    ['BCDF-GHJ1', null],
    ['', null],
    ['x'.repeat(5_000), null],
  ])('%p is read as %p', (typed, code) => {
    expect(readUserCode(typed)).toBe(code)
  })

  test('is drawn evenly, and read back as it is shown', () => {
    let byte = 0
    const code = drawUserCode((length) => Uint8Array.from({ length }, () => 236 + byte++))
    expect(printUserCode(code)).toBe('VWXZ-BCDF')
    expect(readUserCode(printUserCode(code))).toBe(code)
  })
})
