/** A login with a key, kept in a file, and the keys that go before it. */

import { afterAll, beforeAll, expect, setDefaultTimeout, test } from 'bun:test'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { createDescription, type Description } from '../../server/test/acceptance/description.ts'
import { type CliServer, startCliServer } from './typeCli.ts'

setDefaultTimeout(60_000)

let cli: CliServer
let managed: Description
beforeAll(async () => {
  cli = await startCliServer()
  managed = createDescription(await (await fetch(new URL('/manage/openapi.json', cli.server.url))).json())
})
afterAll(() => cli?.remove())

/** No key but that of the login. */
const login = { TOLLGATE_API_KEY: '', TOLLGATE_URL: '' }
const words = () => ['login', '--with-token', '--server', cli.server.url, '--json']
const file = () => join(cli.folder, 'tollgate/logins.json')

test('a login reads the key from stdin, keeps it in a file of mode 0600, and the next command uses it', async () => {
  const { code, stdout, stderr } = await cli.type(words(), `${cli.server.firstKey}\n`, login)
  expect([code, stderr]).toEqual([0, ''])
  const url = cli.server.url.replace(/\/v1$/, '')
  expect(JSON.parse(stdout)).toEqual({ server: url, stored_in: 'file', file: file() })
  expect(stdout).not.toContain(cli.server.firstKey)
  const stat = await Bun.file(file()).stat()
  expect((stat.mode & 0o777).toString(8)).toBe('600')

  const who = await cli.type(['whoami', '--json'], undefined, login)
  const { server: named, key, key_from: from, ...own } = JSON.parse(who.stdout)
  expect([named, key, from]).toEqual([url, `${cli.server.firstKey.slice(0, 13)}…`, 'file'])
  managed.checkSchema('OwnApiKey', own)
  expect(own).toMatchObject({ person: null, organization: { name: 'default' }, levels: { instances: 'write' } })
  expect(await cli.type(['balance'], undefined, login)).toMatchObject({ code: 0, stderr: '' })
})

test("the environment's key goes first, and a key never goes to another server than its own", async () => {
  const made = await cli.server.command('keys', 'create', '--org', 'default', '--scope', 'billing:read')
  const who = await cli.type(['whoami', '--json'], undefined, { ...login, TOLLGATE_API_KEY: String(made['key']) })
  expect(JSON.parse(who.stdout)).toMatchObject({
    key_from: 'environment',
    levels: { serverless: 'none', billing: 'read', webhooks: 'none', instances: 'none' },
  })
  const asked: string[] = []
  const other = Bun.serve({
    port: 0,
    fetch: (request) => {
      asked.push(request.headers.get('authorization') ?? 'none')
      return new Response('{}')
    },
  })
  const elsewhere = await cli.type(['balance', '--server', `http://127.0.0.1:${other.port}`], undefined, login)
  await other.stop(true)
  expect([elsewhere.code, asked]).toEqual([4, []])
})

test('a file that others may read is refused', async () => {
  await Bun.$`chmod 644 ${file()}`
  const { code, stderr } = await cli.type(['balance'], undefined, login)
  expect([code, stderr]).toEqual([
    1,
    `tollgate: other users of this machine may read ${file()}: run "chmod 600 ${file()}"\n`,
  ])
  await Bun.$`chmod 600 ${file()}`
})

test('a key that the server does not know is not kept', async () => {
  const refused = await cli.type(words(), `svc_live_${'a'.repeat(24)}`, login)
  expect([refused.code, refused.stdout]).toEqual([4, ''])
  expect((await cli.type(words(), 'no key at all', login)).code).toBe(4)
  expect(await readFile(file(), 'utf8')).toContain(cli.server.firstKey)
})

test('a key of the environment that the server does not know is said to be that of the environment', async () => {
  const key = `svc_live_${'a'.repeat(24)}`
  const { code, stderr } = await cli.type(['balance'], undefined, { ...login, TOLLGATE_API_KEY: key })
  expect([code, stderr]).toEqual([4, expect.stringContaining('The key is from TOLLGATE_API_KEY: set another there')])
  expect(stderr).not.toContain(key)
})

test('logout forgets it, and the next command asks for a login', async () => {
  expect((await cli.type(['logout'], undefined, { ...login, TOLLGATE_URL: cli.server.url })).code).toBe(0)
  expect(await readFile(file(), 'utf8')).not.toContain(cli.server.firstKey)
  const { code, stdout, stderr } = await cli.type(['balance', '--json'], undefined, {
    ...login,
    TOLLGATE_URL: cli.server.url,
  })
  expect([code, stdout, JSON.parse(stderr).error.code]).toEqual([4, '', 'login_needed'])
  expect((await cli.type(['logout'], undefined, { ...login, TOLLGATE_URL: cli.server.url })).code).toBe(1)
})
