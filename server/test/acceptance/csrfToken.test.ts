/** The descriptions say where a change by a session needs its CSRF token. */

import { afterAll, beforeAll, expect, test } from 'bun:test'
import { ACCOUNT_SETTINGS } from '../accountsHouse.ts'
import { type AskedGateway, openAskedGateway } from './ask.ts'
import type { Document } from './description.ts'

let gateway: AskedGateway
let without: AskedGateway
beforeAll(async () => {
  gateway = await openAskedGateway({ settings: ACCOUNT_SETTINGS })
  without = await openAskedGateway({ beside: gateway })
})
afterAll(async () => {
  await without.close()
  await gateway.close()
})

interface Described {
  readonly name: string
  /** Ways in: `session`, `apiKey` or both. */
  readonly security: string
  /** Whether the header is required; null: there is none. */
  readonly isRequired: boolean | null
}

function operationsOf(document: Document): Described[] {
  return Object.entries(document.paths).flatMap(([path, item]) =>
    Object.entries(item).map(([method, operation]) => {
      const { security = [{ apiKey: [] }] } = operation as { security?: readonly object[] }
      const header = operation.parameters?.find(({ name }) => name === 'X-CSRF-Token')
      return {
        name: `${method} ${path}`,
        security: security.flatMap((each) => Object.keys(each)).join(' or '),
        isRequired: header === undefined ? null : header.required === true,
      }
    }),
  )
}

test('each change by a session has the header X-CSRF-Token: required where no key may call; nothing else has it', () => {
  const all = [...operationsOf(gateway.description), ...operationsOf(gateway.managed)]
  const wrong = all.filter(({ name, security, isRequired }) => {
    const isChange = !name.startsWith('get ')
    if (!isChange || !security.includes('session')) return isRequired !== null
    return isRequired !== (security === 'session')
  })
  expect(wrong).toEqual([])
  const having = all.filter(({ isRequired }) => isRequired !== null).map(({ name, isRequired }) => [name, isRequired])
  expect(having).toEqual(
    expect.arrayContaining([
      ['put /billing/spending-limit', false],
      ['post /keys', false],
      ['patch /session', true],
      ['post /operator/organizations', true],
    ]),
  )
})

test('without accounts no operation has it', () => {
  const all = [...operationsOf(without.description), ...operationsOf(without.managed)]
  expect(all.filter(({ isRequired }) => isRequired !== null)).toEqual([])
})
