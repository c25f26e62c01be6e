import { expect, test } from 'bun:test'
import { Secret } from '../../server/src/lib/secret.ts'
import { memoryFile, memoryKeychain, type TestSystemParts, testSystem } from '../test/testSystem.ts'
import { findKey, forgetKey, keepKey, keyFor, loginHint, replaceKey, serverUrlOf } from './logins.ts'
import { runLine } from './run.ts'

const URL = 'https://api.example.com'
const KEY = `svc_live_${'k'.repeat(24)}`

function bare(parts: TestSystemParts = {}) {
  return testSystem({ environment: {}, ...parts }).system
}

test('a keychain that works holds the key, and the file only says so', async () => {
  const keychain = memoryKeychain()
  const logins = memoryFile()
  const system = bare({ logins, openKeychain: async () => keychain })
  expect(await keepKey(system, URL, new Secret(KEY))).toBe('keychain')
  expect(keychain.secrets.get(URL)).toBe(KEY)
  expect(logins.text).not.toContain(KEY)
  expect((await findKey(system, URL))?.key.reveal()).toBe(KEY)
  expect(await forgetKey(system, URL)).toBe(true)
  expect([keychain.secrets.size, await findKey(system, URL), await forgetKey(system, URL)]).toEqual([0, null, false])
})

test('without one, or with one that refuses, the file holds it', async () => {
  for (const keychain of [null, memoryKeychain(true)]) {
    const system = bare({ openKeychain: async () => keychain })
    expect(await keepKey(system, URL, new Secret(KEY))).toBe('file')
    expect(await findKey(system, URL)).toMatchObject({ source: 'file' })
  }
})

test('a keychain that is locked later is said to be so, and one that lost the key asks for a login', async () => {
  const logins = memoryFile()
  let keychain = memoryKeychain()
  const system = bare({ logins, openKeychain: async () => keychain })
  await keepKey(system, URL, new Secret(KEY))
  keychain = memoryKeychain(true)
  expect(findKey(system, URL)).rejects.toThrow("the keychain can't be read (locked): unlock it")
  keychain = memoryKeychain()
  expect(findKey(system, URL)).rejects.toMatchObject({ exitCode: 4 })
})

test('the server is that of --server, else of the environment, else of the last login, else of this machine', async () => {
  const logins = memoryFile()
  expect(await serverUrlOf(bare({ logins }), undefined)).toBe('http://127.0.0.1:8080')
  await keepKey(bare({ logins }), URL, new Secret(KEY))
  expect(await serverUrlOf(bare({ logins }), undefined)).toBe(URL)
  const environment = { TOLLGATE_URL: 'http://other.test/v1/' }
  expect(await serverUrlOf(bare({ logins, environment }), undefined)).toBe('http://other.test')
  expect(await serverUrlOf(bare({ logins, environment }), 'http://third.test/')).toBe('http://third.test')
})

test('a key belongs to one server, and that of the environment goes first', async () => {
  const logins = memoryFile()
  await keepKey(bare({ logins }), URL, new Secret(KEY))
  expect(await findKey(bare({ logins }), 'https://evil.example.com')).toBeNull()
  const environment = { TOLLGATE_API_KEY: 'svc_live_other' }
  const found = await findKey(bare({ logins, environment }), URL)
  expect([found?.source, found?.key.reveal()]).toEqual(['environment', 'svc_live_other'])
})

test('a key of the environment that goes to the server of the last login is told of, once', async () => {
  const logins = memoryFile()
  await keepKey(bare({ logins }), URL, new Secret(KEY))
  const environment = { TOLLGATE_API_KEY: 'svc_live_other' }
  const told = async (parts: TestSystemParts, url: string) => {
    const { system, printed } = testSystem({ logins, ...parts })
    await findKey(system, url)
    await findKey(system, url)
    return printed.said
  }
  expect(await told({ environment }, URL)).toBe(
    `tollgate: the key in TOLLGATE_API_KEY is sent to ${URL}, the server of the last login; say the key's own server in TOLLGATE_URL\n`,
  )
  expect(await told({ environment }, 'https://other.example.com')).toBe('')
  expect(await told({ environment: { ...environment, TOLLGATE_URL: URL } }, URL)).toBe('')
  expect(await told({ environment: {} }, URL)).toBe('')
})

test.each(['nonsense', '[]', '{"keys":{"a":1}}', '{"keys":{"a":{"in":"file"}}}'])(
  'a file that says %s is refused in one sentence',
  (text) => {
    const read = findKey(bare({ logins: memoryFile(text) }), URL)
    expect(read).rejects.toThrow("/config/tollgate/logins.json can't be understood: remove it and log in again")
  },
)

test('the advice to log in names the server, where a command without --server would ask another one', async () => {
  const system = bare({ environment: { TOLLGATE_URL: 'https://preset.example.com' } })
  expect(await loginHint(system, 'https://preset.example.com')).toBe('tollgate login')
  expect(await loginHint(system, URL)).toBe(`tollgate login --server ${URL}`)
  expect(keyFor(system, URL)).rejects.toThrow(`log in with "tollgate login --server ${URL}"`)
})

test('a key that takes the place of another leaves the preset server as it is', async () => {
  const logins = memoryFile()
  const system = bare({ logins })
  await keepKey(system, URL, new Secret(KEY), true)
  await keepKey(system, 'https://other.example.com', new Secret(KEY))
  await replaceKey(system, URL, new Secret(`${KEY}2`), true)
  expect(await serverUrlOf(system, undefined)).toBe('https://other.example.com')
  const found = await findKey(system, URL)
  expect([found?.key.reveal(), found?.isOwn]).toEqual([`${KEY}2`, true])
})

test('after a logout commands use the last login that is left, and it says so; whoami --all lists them', async () => {
  const logins = memoryFile()
  const line = async (words: readonly string[]) => {
    const { system, printed } = testSystem({ logins, environment: {} })
    expect(await runLine(words, system)).toBe(0)
    return printed.out
  }
  for (const name of ['a', 'b', 'c']) await keepKey(bare({ logins }), `https://${name}.example.com`, new Secret(KEY))
  const use = 'Without --server, commands use https://b.example.com from now on, where you are still logged in.'
  expect(await line(['logout'])).toContain(use)
  expect(await line(['whoami', '--all'])).toMatch(/\nhttps:\/\/a\.\S+ +\S+\nhttps:\/\/b\.\S+ +\S+ +yes\n$/)
  expect(JSON.parse(await line(['whoami', '--all', '--json'])).data.at(-1)).toEqual({
    server: 'https://b.example.com',
    stored_in: 'file',
    preset: true,
  })
})

test('with --json the warning of a key is a line of JSON', async () => {
  const logins = memoryFile()
  await keepKey(bare({ logins }), URL, new Secret(KEY))
  const fetch = async () => Response.json({ balance_cents: 1 })
  const { system, printed } = testSystem({ logins, environment: { TOLLGATE_API_KEY: KEY }, fetch })
  expect(await runLine(['balance', '--json'], system)).toBe(0)
  expect(JSON.parse(printed.said).notice).toMatchObject({ code: 'key_goes_to_last_login', server: URL })
})

test('logout says which server commands use from then on', async () => {
  const logins = memoryFile()
  const { system, printed } = testSystem({ logins, environment: {} })
  await keepKey(system, URL, new Secret(KEY))
  expect(await runLine(['logout'], system)).toBe(0)
  expect(printed.out).toContain('Without --server, commands use http://127.0.0.1:8080 from now on.')
})
