/**
 * The experience of somebody who has just checked this out: the first start, its curl pasted, and the hindrances
 * there may be.
 */

import { afterAll, beforeAll, expect, setDefaultTimeout, test } from 'bun:test'
import { existsSync } from 'node:fs'
import { chmod, mkdtemp, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { COMMAND, paste, run, type Typed, typeCommand } from './terminal.ts'

// Starting PostgreSQL takes a busy machine a while.
setDefaultTimeout(60_000)

let folder: string
let server: Typed
let banner: string

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'tollgate-test-'))
  await chmod(folder, 0o711)
  server = typeCommand(['serve', '--port', '0', '--admin-port', '0'], { folder })
  banner = await server.shows('{"role":"user"')
})
afterAll(async () => {
  server?.process.kill('SIGTERM')
  await server?.ended
  await rm(folder, { recursive: true, force: true })
})

const portOf = () => /127\.0\.0\.1:(\d+)\/v1/.exec(banner)?.[1] ?? ''
const adminPortOf = () => /127\.0\.0\.1:(\d+)\/metrics/.exec(banner)?.[1] ?? ''
const startAgain = (words: readonly string[], environment: Record<string, string> = {}) =>
  typeCommand(['serve', ...words], { folder, environment }).ended

test('the first start shows what is served and at what price, and fits a terminal', () => {
  expect(banner).toMatch(/svc\/sandbox +100 +200 +Simulated/)
  expect(banner).toMatch(/svc\/sandbox:economy +50 +100\n/)
  expect(banner).toMatch(/svc\/sandbox-image +- +- +2 cents per image/)
  // The folder of the tests may be of any length; this is as long as one in a home is.
  const atHome = banner.replaceAll(folder, '/'.padEnd(40, 'folder'))
  for (const line of atHome.split('\n')) expect(line.length).toBeLessThanOrEqual(/^ {2}svc/.test(line) ? 80 : 110)
})

test('without a terminal the first key goes to a file that only its owner may read, and nowhere else', async () => {
  const file = join(folder, '.tollgate/first-key')
  expect(banner).toContain(`an admin key, in this file. Keep the key, delete the file:\n\n  ${file}\n`)
  expect(await readFile(file, 'utf8')).toMatch(/^svc_live_[0-9A-Za-z]{24}\n$/)
  expect((await stat(file)).mode & 0o777).toBe(0o600)
  expect(banner).not.toContain('svc_live_')
})

/** With accounts, and one model. */
const ACCOUNTS = `
accounts: {}
providers: { sandbox: { dialect: sandbox } }
models:
  - id: svc/sandbox
    context_length: 4096
    pricing: { input_per_1m_tokens_cents: 100, output_per_1m_tokens_cents: 200 }
    targets: [{ provider: sandbox, model: sandbox }]
`
const SET_UP_LINK = /http:\/\/127\.0\.0\.1:\d+\/account\/set-up\?token=[\w-]{32,}/g

test('at a terminal the first key and the link to set up the first account are shown, and no file is made', async () => {
  let shown = ''
  const isShown = Promise.withResolvers<void>()
  const own = await mkdtemp(join(tmpdir(), 'tollgate-test-'))
  await chmod(own, 0o711)
  await writeFile(join(own, 'tollgate.yaml'), ACCOUNTS)
  const show = (_: unknown, data: Uint8Array) => {
    shown += Buffer.from(data).toString()
    if (shown.includes('"role":"user"')) isShown.resolve()
  }
  const terminal = { cols: 120, rows: 40, data: show }
  const child = Bun.spawn([COMMAND, 'serve', '--port', '0', '--admin-port', '0'], {
    ...{ cwd: own, terminal, env: { ...process.env, TOLLGATE_DISCOVERY: 'off', DATABASE_URL: '' } },
  })
  await Promise.race([isShown.promise, child.exited])
  expect(shown.match(/svc_live_[0-9A-Za-z]{24}/g)).toHaveLength(2)
  expect(shown.match(SET_UP_LINK)).toHaveLength(1)
  for (const name of ['first-key', 'set-up-link']) expect(existsSync(join(own, '.tollgate', name))).toBe(false)
  child.kill('SIGTERM')
  expect(await child.exited).toBe(0)
  await rm(own, { recursive: true, force: true })
})

test('the curl that it prints, pasted into a shell, gets an answer', async () => {
  const { stdout, code } = await paste(banner.slice(banner.indexOf('\ncurl ')), folder)
  expect(code).toBe(0)
  const answer = JSON.parse(stdout)
  expect(answer).toMatchObject({ object: 'chat.completion', model: 'svc/sandbox' })
  expect(answer.choices[0].message.content).toContain('What is a toll gate?')
})

test('a second server on the same data is refused in one sentence', async () => {
  const { code, stdout, stderr } = await startAgain(['--port', '0', '--admin-port', '0'])
  expect([code, stdout]).toEqual([1, ''])
  expect(stderr).toMatch(/^tollgate: Another Tollgate server already serves from the data directory .*--data-dir\.\n$/)
})

/** Of the start with accounts below. */
let linkOfSecondStart = { file: '', shown: '', all: '' }

test('a port that is taken is named, and the key of the first start is not lost to it', async () => {
  for (const [flag, port] of [
    ['--port', portOf()],
    ['--admin-port', adminPortOf()],
  ] as const) {
    const other = flag === '--port' ? '--admin-port' : '--port'
    const { code, stderr } = await startAgain([flag, port, other, '0', '--data-dir', 'another'])
    expect(code).toBe(1)
    expect(stderr).toContain(`tollgate: port ${port} of 127.0.0.1 is taken by another program`)
    expect(stderr).toContain(`another ${flag}`)
  }
  await writeFile(join(folder, 'accounts.yaml'), ACCOUNTS)
  const words = ['serve', '--port', '0', '--admin-port', '0', '--data-dir', 'another', '--config', 'accounts.yaml']
  const next = typeCommand(words, { folder })
  const shown = await next.shows('Try it')
  expect(shown).toContain('another/first-key')
  expect(await readFile(join(folder, 'another/first-key'), 'utf8')).toMatch(/^svc_live_[0-9A-Za-z]{24}\n$/)
  next.process.kill('SIGTERM')
  const { code, stdout, stderr } = await next.ended
  expect(code).toBe(0)
  linkOfSecondStart = { file: join(folder, 'another/set-up-link'), shown, all: stdout + stderr }
  const startLater = async (shows: string) => {
    const later = typeCommand(['serve', '--port', '0', '--admin-port', '0', '--data-dir', 'another'], { folder })
    const said = await later.shows(shows)
    later.process.kill('SIGTERM')
    expect((await later.ended).code).toBe(0)
    return said
  }
  // With a key nothing is said of making one.
  expect(await startLater('readiness at /ready')).not.toContain('Make a key with')
  const { stdout: keys } = await typeCommand(['keys', 'list', '--data-dir', 'another', '--json'], { folder }).ended
  const [key] = JSON.parse(keys)
  expect((await typeCommand(['keys', 'revoke', key.id, '--data-dir', 'another'], { folder }).ended).code).toBe(0)
  expect(await startLater('--data-dir')).toContain(`Make a key with: ./tollgate keys create --org default`)
})

test('without a terminal the link to set up the first account goes to a file that only its owner may read, and nowhere else', async () => {
  const { file, shown, all } = linkOfSecondStart
  expect(shown).toContain(`with the link in this file:\n\n  ${file}\n`)
  const text = await readFile(file, 'utf8')
  expect(text.match(SET_UP_LINK)).toEqual([text.trim()])
  expect((await stat(file)).mode & 0o777).toBe(0o600)
  expect(all).not.toContain('set-up?token=')
  expect(all).not.toContain(text.trim().split('token=')[1])
})

test('whatever else is in the way is said in one sentence that says what to do', async () => {
  await writeFile(join(folder, 'a-file'), '')
  await writeFile(join(folder, 'bad.yaml'), 'models:\n  - id: svc/x\n    context_lenght: 8192\n    pricing: {}\n')
  const free = ['--port', '0', '--admin-port', '0']
  const address = ['--host', '192.0.2.1', '--data-dir', 'another']
  const secret = 'postgres://somebody:hidden@127.0.0.1:1/nothing'
  const cases = [
    [[...free, '--data-dir', 'a-file'], {}, /^tollgate: .*a-file is no folder: give another --data-dir\n$/],
    [[...free, ...address], {}, /tollgate: 192\.0\.2\.1 is no address of this machine: give another --host/],
    [free, { DATABASE_URL: 'nonsense' }, /^tollgate: DATABASE_URL: must be an address such as postgres:.*\n$/],
    [free, { DATABASE_URL: secret }, /^tollgate: the database can't be reached .* DATABASE_URL names it\n$/],
    [[...free, '--config', 'bad.yaml'], {}, /bad\.yaml:3:5: .*did you mean 'context_length'\?\n/],
  ] as const
  for (const [words, environment, expected] of cases) {
    const { code, stdout, stderr } = await startAgain(words, environment)
    expect([code, stdout]).toEqual([1, ''])
    expect(stderr).toMatch(expected)
    expect(stderr).not.toContain('hidden')
  }
})

test('a command makes no data directory: it says that there is none, and how to name one', async () => {
  const empty = await mkdtemp(join(tmpdir(), 'tollgate-test-'))
  for (const words of [
    ['orgs', 'list'],
    ['orgs', 'create', 'acme'],
    ['migrate'],
    ['ledger', 'verify'],
    ['models', 'pull', 'hf:owner/repo/file.gguf'],
  ]) {
    const { code, stdout, stderr } = await typeCommand(words, { folder: empty }).ended
    expect([words, code, stdout]).toEqual([words, 1, ''])
    expect(stderr).toMatch(
      /^tollgate: there is no data directory .*\.tollgate: name the one of your server with --data-dir/,
    )
  }
  expect((await typeCommand(['models', 'list'], { folder: empty }).ended).code).toBe(0)
  expect(await readdir(empty)).toEqual([])
  await rm(empty, { recursive: true })
})

test('output that can not be written ends with 1, and a key that nobody has seen is revoked', async () => {
  const environment = { TOLLGATE_DISCOVERY: 'off', DATABASE_URL: '' }
  const full = (words: string) => run('sh', ['-c', `'${COMMAND}' ${words} > /dev/full`], folder, environment).ended
  const made = await full('keys create --org default --scope full_access --name lost')
  expect(made.code).toBe(1)
  expect(made.stderr).toMatch(/can't be written to standard output \(ENOSPC\).*\n.*the key [0-9a-f-]{36} was revoked/)
  for (const words of ['orgs list', 'help', '--version', 'keys list --json']) {
    const { code, stderr } = await full(words)
    expect([words, code]).toEqual([words, 1])
    expect(stderr).toContain("can't be written to standard output (ENOSPC)")
  }
  const { stdout } = await typeCommand(['keys', 'list', '--json'], { folder }).ended
  const keys = JSON.parse(stdout) as { name: string; state: string }[]
  expect(keys.map(({ name, state }) => [name, state])).toEqual([
    ['lost', 'revoked'],
    ['first key', 'active'],
  ])
})
