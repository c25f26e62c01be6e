/** A mistake is told on stderr in one line, or with --json in one object; the exit code tells whose mistake it is. */

import { afterAll, beforeAll, expect, setDefaultTimeout, test } from 'bun:test'
import { chmod, mkdir, mkdtemp, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { run } from '../../server/test/acceptance/terminal.ts'
import { type CliServer, cliEnvironment, startCliServer } from './typeCli.ts'

setDefaultTimeout(60_000)

let cli: CliServer
beforeAll(async () => {
  cli = await startCliServer()
})
afterAll(() => cli?.remove())

test.each<[string[], number, RegExp]>([
  [['nonsense'], 2, /unknown command 'nonsense'/],
  [['balanc'], 2, /Did you mean balance\?/],
  [['balance', '--jsonn'], 2, /unknown option '--jsonn' \(Did you mean --json\?\)/],
  [['balance', 'more'], 2, /too many arguments/],
  [['video'], 2, /"video" needs a command/],
  [['preflight'], 2, /missing required argument 'MODEL' \(see "tollgate preflight --help"\)/],
  [['keys', 'create'], 2, /missing required argument 'NAME' \(see "tollgate keys create --help"\)/],
  [['keys', 'create', 'x'], 2, /required option '--scope <SCOPE>' not specified \(see "tollgate keys create --help"\)/],
  [['keys', 'create', ' ', '--scope', 'read_only'], 2, /NAME: must be text of 1 to 100 characters/],
  [['usage', '--group-by', 'model', '--bucket', 'day'], 2, /--group-by: takes the place of --bucket/],
  [
    ['usage', '--group-by', 'colour'],
    2,
    /--group-by: must be one or two of model, key.* \(see "tollgate usage --help"\)/,
  ],
  [['orgs', 'list'], 2, /"orgs" is a command of the operators of a server: type ".\/tollgate orgs"/],
  [['chat', '--model', 'svc/sandbox', '--no-input'], 2, /the prompt is empty/],
  [['chat', 'Hi'], 2, /name one with --model or TOLLGATE_MODEL/],
  [['chat', 'Hi', '--model', 'svc/none'], 1, /'svc\/none' does not exist/],
  [['chat', 'Hi', '--model', 'svc/sandbox', '--max-tokens', 'many'], 2, /--max-tokens: must be a whole number/],
  [['image', 'x', '--model', 'svc/sandbox-image'], 2, /--output: name the file/],
  [['image', 'x', '--model', 'svc/sandbox-image', '--output', 'nowhere/x.png'], 2, /there is no such folder/],
  [['usage', '--bucket', 'year'], 2, /Allowed choices are hour, day, week, month/],
  [['usage', '--start', 'yesterday'], 2, /--start: must be a time ago such as 7d/],
  [['limits', 'set', '--monthly', '0.5'], 2, /at least 1 dollar/],
  [['topup', '1'], 1, /AMOUNT: must be at least \$\d+\.\d\d/],
  [['topup', 'much'], 2, /AMOUNT: must be an amount of dollars/],
  [['video', 'get', 'nonsense'], 1, /There is no video with this id/],
  [['completion', 'tcsh'], 2, /there is no script for "tcsh"/],
  [['login'], 1, /offers no login by browser: get an API key/],
  [['login', '--with-token'], 4, /standard input: holds no API key/],
  [['balance', '--server', 'http://127.0.0.1:1'], 1, /can't be reached/],
  [['balance', '--server', 'ftp://example.com'], 2, /must be a server's address/],
])('%j ends with %d', async (words, code, says) => {
  const { stdout, stderr, ...ended } = await cli.type(words, '')
  expect({ code: ended.code, stdout }).toEqual({ code, stdout: '' })
  expect(stderr).toMatch(/^tollgate: [^\n]+\n$/)
  expect(stderr).toMatch(says)
})

/** One of each kind: of the words, of a value, of what the server says, of the key, of the way to the server. */
test.each<[string[], number]>([
  [['nonsense'], 2],
  [['preflight'], 2],
  [['limits', 'set', '--monthly', '0.5'], 2],
  [['usage', '--group-by', 'colour'], 2],
  [['chat', 'Hi', '--model', 'svc/none'], 1],
  [['login', '--with-token'], 4],
  [['balance', '--server', 'http://127.0.0.1:1'], 1],
])('with --json %j ends with %d and an object', async (words, code) => {
  const asJson = await cli.type([...words, '--json'], '')
  expect({ code: asJson.code, stdout: asJson.stdout }).toEqual({ code, stdout: '' })
  expect(JSON.parse(asJson.stderr)).toMatchObject({
    error: { code: expect.any(String), problems: [expect.any(String)] },
  })
})

// Elsewhere the keychain is that of the person who runs the test.
test.skipIf(process.platform !== 'linux')(
  'without a keychain service the real package fails: a key in it is said to be out of reach, and a new login goes to the file',
  async () => {
    const [url, main] = [new URL(cli.server.url).origin, join(import.meta.dirname, '../src/main.ts')]
    const own = await mkdtemp(join(cli.folder, 'keychain-'))
    const file = join(own, 'tollgate/logins.json')
    const kept = JSON.stringify({ server: url, keys: { [url]: { in: 'keychain' } } })
    await mkdir(join(own, 'tollgate'), { mode: 0o700 })
    await writeFile(file, kept)
    await chmod(file, 0o600)
    // Bun runs the sources: the built file lies where the package is not found.
    const environment = { TOLLGATE_KEYCHAIN: '', DBUS_SESSION_BUS_ADDRESS: `unix:path=${own}/nobody` }
    const type = (words: string[], input: string) =>
      run(process.execPath, [main, ...words], own, cliEnvironment({ folder: own, environment }), input).ended
    const read = await type(['balance'], '')
    expect([read.code, read.stdout]).toEqual([1, ''])
    expect(read.stderr).toMatch(
      /^tollgate: the keychain can't be read \(.*DBus.*\): unlock it, or set TOLLGATE_API_KEY\n$/,
    )
    expect(await readFile(file, 'utf8')).toBe(kept)
    const login = await type(['login', '--with-token', '--server', url, '--json'], `${cli.server.firstKey}\n`)
    expect([login.code, login.stderr]).toEqual([0, ''])
    expect(JSON.parse(login.stdout)).toEqual({ server: url, stored_in: 'file', file })
  },
)
