import { expect, test } from 'bun:test'
import { Secret } from '../../../server/src/lib/secret.ts'
import { memoryFile, memoryKeychain, testSystem } from '../../test/testSystem.ts'
import { keepKey } from '../logins.ts'
import { runLine } from '../run.ts'

const URL = 'https://gateway.test'
const FORMER = `svc_live_${'f'.repeat(24)}`
const NEXT = `svc_live_${'n'.repeat(24)}`

interface LoginBefore {
  readonly isOwn?: boolean
  /** The state of the keychain by now. */
  readonly keychain?: 'works' | 'locked' | 'empty'
  /** The server's answer when the key of the login before asks to be revoked. */
  readonly status?: number
}

/** Logs in where somebody was logged in before. Returns what is said, and the keys that were revoked. */
async function logInAgain({ isOwn = true, keychain = 'works', status = 200 }: LoginBefore) {
  const logins = memoryFile()
  const revoked: string[] = []
  let open = memoryKeychain()
  const { system, printed, lines } = testSystem({
    logins,
    environment: { TOLLGATE_URL: URL },
    openKeychain: async () => open,
    fetch: async (_, { method, headers }) => {
      if (method !== 'DELETE') return Response.json({ data: [] })
      if (status === 200) revoked.push(headers['Authorization'] ?? '')
      return Response.json(status === 200 ? {} : { detail: 'The server says why.', code: 'x' }, { status })
    },
  })
  await keepKey(system, URL, new Secret(FORMER), isOwn)
  if (keychain !== 'works') open = memoryKeychain(keychain === 'locked')
  lines.push(NEXT)
  expect(await runLine(['login', '--with-token'], system)).toBe(0)
  return { said: printed.said, revoked }
}

test('the key of the login before is revoked, and nothing is said', async () => {
  expect(await logInAgain({})).toEqual({ said: '', revoked: [`Bearer ${FORMER}`] })
})

test.each<[string, LoginBefore, string]>([
  ['a keychain that is locked', { keychain: 'locked' }, "the keychain can't be read (locked)"],
  ['a keychain that has lost it', { keychain: 'empty' }, 'the keychain has no key'],
  ['a server that refuses', { status: 503 }, 'The server says why.'],
])('after %s the key before is said to be valid still, with the commands that end it', async (_, before, why) => {
  const { said, revoked } = await logInAgain(before)
  expect(revoked).toEqual([])
  expect(said).toStartWith('tollgate: the key of your login before is not revoked, and works until it expires (')
  for (const each of [why, '"tollgate keys list"', '"tollgate keys revoke ID"']) expect(said).toContain(each)
})

test.each<[string, LoginBefore]>([
  ['a key that the server does not know any more', { status: 401 }],
  ['a key that may be in use elsewhere', { isOwn: false, keychain: 'locked' }],
])('of %s nothing is said', async (_, before) => {
  expect(await logInAgain(before)).toEqual({ said: '', revoked: [] })
})
