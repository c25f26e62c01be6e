import { afterAll, expect, test } from 'bun:test'
import { mkdirSync, mkdtempSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { inspect } from 'node:util'
import { systemClock } from '../infra/clock.ts'
import type { Environment } from '../lib/environment.ts'
import { Secret } from '../lib/secret.ts'
import { type Config, type ConfigFlags, loadConfig } from './config.ts'
import { sendsPasswordInClear } from './values.ts'

const root = mkdtempSync(join(tmpdir(), 'tollgate-config-'))
afterAll(() => rmSync(root, { recursive: true, force: true }))

let folders = 0
/** A folder with these files. */
function folder(files: Readonly<Record<string, string>> = {}): string {
  folders += 1
  const path = join(root, `${folders}`)
  mkdirSync(path)
  for (const [name, text] of Object.entries(files)) writeFileSync(join(path, name), text)
  return path
}

async function configOf(flags: ConfigFlags, environment: Environment = {}, directory = folder()): Promise<Config> {
  const loaded = await loadConfig(flags, environment, directory)
  if (!loaded.ok) throw new Error(loaded.problems.join('\n'))
  return loaded.config
}

/** The variables without which several processes cannot be started. */
const SHARED = { REDIS_URL: 'redis://127.0.0.1:6379' }

async function problemsOf(flags: ConfigFlags, environment: Environment = {}, directory = folder()) {
  const loaded = await loadConfig(flags, environment, directory)
  return loaded.ok ? [] : loaded.problems
}

test('with nothing given, the documented defaults hold', async () => {
  const directory = folder()
  const config = await configOf({}, {}, directory)
  expect(config).toMatchObject({ host: '127.0.0.1', port: 8080, adminPort: 9464, databaseUrl: null, source: null })
  expect(config.dataDirectory).toBe(join(directory, '.tollgate'))
  expect(config.settings.models).toBeNull()
  expect(config.settings.fixed.discovery).toBe(true)
})

test('without a settings file the place of one is watched, so that it is read when it is made', async () => {
  const directory = folder()
  const { source, watched, stamp, settingsPath } = await configOf({}, {}, directory)
  expect([source, stamp, await watched?.stamp()]).toEqual([null, null, null])
  expect(settingsPath).toBe(join(directory, 'tollgate.yaml'))
  writeFileSync(settingsPath, 'drain_seconds: 3')
  expect(await watched?.stamp()).not.toBeNull()
  expect(await watched?.load()).toMatchObject({ ok: true, settings: { fixed: { drainMs: 3_000 } } })
})

test('a flag wins over a variable, a variable over the file, the file over the default', async () => {
  const directory = folder({ 'tollgate.yaml': 'log_level: debug\ndiscovery: true', 'other.yaml': 'log_level: error' })
  const environment = {
    TOLLGATE_PORT: '81',
    TOLLGATE_HOST: '0.0.0.0',
    TOLLGATE_DATA_DIR: 'd',
    TOLLGATE_ADMIN_PORT: '82',
  }
  const fromEnvironment = await configOf({}, environment, directory)
  expect(fromEnvironment).toMatchObject({
    port: 81,
    host: '0.0.0.0',
    adminPort: 82,
    dataDirectory: join(directory, 'd'),
  })
  expect(fromEnvironment.settings.fixed).toMatchObject({ logLevel: 'debug', discovery: true })
  const flags = { port: '91', host: '::1', 'data-dir': '/e', 'admin-port': '0', config: 'other.yaml' }
  const fromFlags = await configOf(flags, environment, directory)
  expect(fromFlags).toMatchObject({ port: 91, host: '::1', adminPort: 0, dataDirectory: '/e' })
  expect(fromFlags.settings.fixed).toMatchObject({ logLevel: 'error', discovery: false })
  const overridden = await configOf({}, { TOLLGATE_LOG_LEVEL: 'warn', TOLLGATE_DISCOVERY: 'off' }, directory)
  expect(overridden.settings.fixed).toMatchObject({ logLevel: 'warn', discovery: false, otlp: null })
  const opened = await configOf({}, { TOLLGATE_WEBHOOK_ALLOW: '127.0.0.0/8, ::1' }, directory)
  expect(opened.settings.fixed.webhooks.allow).toEqual(['127.0.0.0/8', '::1'])
  const traced = await configOf({}, { OTEL_EXPORTER_OTLP_ENDPOINT: 'http://c:4318/' }, directory)
  expect(traced.settings.fixed.otlp).toEqual({ endpoint: 'http://c:4318', traceRatio: 1 })
})

test('a value of the environment holds through a reload too', async () => {
  const directory = folder({ 'tollgate.yaml': 'log_level: debug' })
  const config = await configOf({}, { TOLLGATE_LOG_LEVEL: 'warn' }, directory)
  const loaded = await config.source?.load()
  expect(loaded?.ok && loaded.settings.fixed.logLevel).toBe('warn')
})

test('several processes are refused a model of their own, at start and when the file changes', async () => {
  const text = 'providers:\n  own: { dialect: gguf, file: m.gguf }\n'
  const directory = folder({ 'tollgate.yaml': text, 'm.gguf': '' })
  expect((await configOf({}, {}, directory)).settings.providers).toHaveLength(1)
  expect(await problemsOf({ processes: '2' }, SHARED, directory)).toEqual([
    expect.stringMatching(/^tollgate.yaml:2:19: providers.own.dialect: GGUF files need --processes 1: use /),
  ])
  const later = folder({ 'tollgate.yaml': 'owned_by: a', 'm.gguf': '' })
  const config = await configOf({ processes: '2' }, SHARED, later)
  writeFileSync(join(later, 'tollgate.yaml'), text)
  expect(await config.source?.load()).toMatchObject({ ok: false })
})

const REFUSED: readonly (readonly [ConfigFlags, Environment, RegExp])[] = [
  [{ port: '65536' }, {}, /^--port: '65536' is not a port/],
  [{}, { OTEL_EXPORTER_OTLP_ENDPOINT: 'c:4318' }, /^OTEL_EXPORTER_OTLP_ENDPOINT: must be an address/],
  [{ port: '-1' }, {}, /^--port: '-1' is not a port/],
  [{ port: '' }, {}, /^--port: '' is not a port/],
  [{ port: '80a' }, {}, /^--port/],
  [{}, { TOLLGATE_PORT: 'http' }, /^TOLLGATE_PORT: 'http' is not a port/],
  [{ 'admin-port': '8080' }, {}, /^--admin-port: must differ from the port, 8080/],
  [{ host: 'http://x' }, {}, /^--host: 'http:\/\/x' is not an address/],
  [{ host: '[::1]' }, {}, /without port and brackets/],
  [{ host: '127.0.0' }, {}, /^--host/],
  [{ 'data-dir': '' }, {}, /^--data-dir: must be the path of a folder/],
  [{ config: 'none.yaml' }, {}, /^--config: there is no file none.yaml/],
  [{}, { TOLLGATE_CONFIG: 'none.yaml' }, /^TOLLGATE_CONFIG: there is no file none.yaml/],
  [{ config: '.' }, {}, /^\.: can't be read \(EISDIR\)/],
  [{}, { TOLLGATE_DISCOVERY: 'yes' }, /^TOLLGATE_DISCOVERY: must be 'on' or 'off'/],
  [{}, { TOLLGATE_LOG_LEVEL: 'loud' }, /^TOLLGATE_LOG_LEVEL: must be one of fatal/],
  [{}, { TOLLGATE_WEBHOOK_ALLOW: '127.0.0.0/33' }, /^TOLLGATE_WEBHOOK_ALLOW: must be networks/],
  [{}, { TOLLGATE_WEBHOOK_ALLOW: 'localhost' }, /^TOLLGATE_WEBHOOK_ALLOW: must be networks/],
  [{}, { TOLLGATE_DATA_KEY: 'canary' }, /^TOLLGATE_DATA_KEY: must be 64 hex digits/],
  [{}, { DATABASE_URL: 'mysql://canary@h/d' }, /^DATABASE_URL: must be an address such as postgres:/],
  ...[
    'postgres://u:canary@db.example/d',
    'postgres://u:canary@10.0.0.5:6432/d?application_name=x',
    'postgresql://u:canary@[2001:db8::1]/d',
    'postgres://u:canary@127.0.0.1/d?host=db.example',
    'postgres://u:canary@localhost.example/d',
    'postgres://u:canary@127.0.0.1,db.example:5433/d?target_session_attrs=read-write',
    'postgres://u:canary@db.example/d?SSLMODE=require',
  ].map((url): readonly [ConfigFlags, Environment, RegExp] => [
    {},
    { DATABASE_URL: url },
    /^DATABASE_URL: is on another host, .* append \?sslmode=verify-full .*sslmode=disable, if/,
  ]),
  ...[
    'postgres://u:canary@h1:5432,h2:5433/d?sslmode=require',
    'postgres://u:canary@h1,h2/d?sslmode=require&target_session_attrs=any',
    'postgres://u:canary@h/d?sslmode=require&target_session_attrs=standby',
    'postgres://u:canary@h1,h2/d?sslmode=require&target_session_attrs=read-write&target_session_attrs=any',
  ].map((url): readonly [ConfigFlags, Environment, RegExp] => [
    {},
    { DATABASE_URL: url },
    /^DATABASE_URL: of several hosts .* append \?target_session_attrs=read-write/,
  ]),
  [{}, { DATABASE_URL: 'postgres:///d', PGHOST: 'canary.example' }, /^DATABASE_URL: is on another host/],
  ...['', 'canary', 'disable&sslmode=require'].map((mode): readonly [ConfigFlags, Environment, RegExp] => [
    {},
    { DATABASE_URL: `postgres://u@h/d?sslmode=${mode}` },
    /^DATABASE_URL: sslmode must be given once, as one of verify-full, /,
  ]),
  [{}, { REDIS_URL: 'http://canary@h' }, /^REDIS_URL: must be an address such as redis:/],
  [{}, { REDIS_URL: 'canary' }, /^REDIS_URL: must be an address such as redis:/],
  [
    { processes: '2' },
    {},
    /^several processes share the rate limits of keys .*: set REDIS_URL, .* or run one process$/,
  ],
  [{}, { TOLLGATE_PROCESSES: '2', REDIS_URL: '' }, /: set REDIS_URL, /],
]
for (const [flags, environment, expected] of REFUSED) {
  test(`refused: ${JSON.stringify(flags)} ${JSON.stringify(environment)}`, async () => {
    const problems = await problemsOf(flags, environment)
    expect(problems).toHaveLength(1)
    expect(problems[0]).toMatch(expected)
    expect(problems[0]).not.toMatch(/canary/)
  })
}

test('a database on this machine needs no sslmode, one on another host any that is named', async () => {
  for (const url of [
    ...['postgres://u:p@localhost:5432/d', 'postgres://u:p@127.0.0.1/d', 'postgres://u:p@127.9.9.9/d'],
    ...['postgres://u:p@[::1]/d', 'postgres:///d', 'postgres://u@%2Ftmp/d', 'postgres:///d?host=/run/postgresql'],
    ...['disable', 'prefer', 'require', 'verify-ca', 'verify-full'].map((mode) => `postgres://u:p@h/d?sslmode=${mode}`),
    'postgres://u:p@h1:5432,h2:5433/d?sslmode=verify-full&target_session_attrs=read-write',
    'postgres://u:p@127.0.0.1:5432,[::1]:5433/d?target_session_attrs=read-write',
  ]) {
    expect((await configOf({}, { DATABASE_URL: url })).databaseUrl?.reveal()).toBe(url)
  }
})

test('all that is wrong is told at once, a line each', async () => {
  const directory = folder({ 'tollgate.yaml': 'owned_by: 3\nmodel: []' })
  const problems = await problemsOf({ port: 'x', host: '' }, {}, directory)
  expect(problems).toHaveLength(4)
  expect(problems[3]).toMatch(/^tollgate.yaml:2:1: model: there is no setting 'model': did you mean 'models'\?/)
})

test('processes are 1 unless asked for, and at most what a machine can use', async () => {
  expect((await configOf({})).processes).toBe(1)
  expect((await configOf({ processes: '4' }, SHARED)).processes).toBe(4)
  expect((await configOf({}, { ...SHARED, TOLLGATE_PROCESSES: '3' })).processes).toBe(3)
  for (const processes of ['0', '65', 'two', '-1', '']) {
    const loaded = await loadConfig({ processes }, {}, folder())
    expect(loaded).toMatchObject({ ok: false, problems: [expect.stringContaining('--processes')] })
  }
})

test('the addresses of database and Redis, passwords and all, show in no dump', async () => {
  const config = await configOf(
    {},
    { DATABASE_URL: 'postgres://u:canary@h/d?sslmode=require', REDIS_URL: 'rediss://:canary@h' },
  )
  expect(config.databaseUrl?.reveal()).toContain('canary')
  expect(config.redisUrl?.reveal()).toContain('canary')
  expect(inspect(config, { depth: 9, showHidden: true })).not.toContain('canary')
  expect(JSON.stringify({ databaseUrl: config.databaseUrl })).not.toContain('canary')
})

test('a password that goes to Redis on another host without TLS is told', () => {
  const urls = ['redis://:pw@h', 'redis://u:pw@10.0.0.1:6379/0', 'rediss://:pw@h', 'redis://h', 'redis://:pw@127.0.0.1']
  const told = urls.filter((url) => sendsPasswordInClear(new Secret(url)))
  expect(told).toEqual(['redis://:pw@h', 'redis://u:pw@10.0.0.1:6379/0'])
})

test('the data key shows in no dump', async () => {
  const config = await configOf({}, { TOLLGATE_DATA_KEY: 'ab'.repeat(32) })
  expect(config.dataKey?.reveal()).toBe('ab'.repeat(32))
  expect(inspect(config, { depth: 9, showHidden: true })).not.toContain('abababab')
})

test('the data key may be several, while they rotate, and nothing else', async () => {
  const two = `${'ab'.repeat(32)},${'cd'.repeat(32)}`
  expect((await configOf({}, { TOLLGATE_DATA_KEY: two })).dataKey?.reveal()).toBe(two)
  for (const text of [`${two},`, `${two},12`, two.replace(',', ';'), 'ab'.repeat(31)]) {
    const problems = await problemsOf({}, { TOLLGATE_DATA_KEY: text })
    expect(problems).toEqual([expect.stringMatching(/^TOLLGATE_DATA_KEY: must be 64 hex digits, .* or OLD,NEW while/)])
    expect(problems.join()).not.toContain('abab')
  }
})

test('a change of the file changes its stamp, a rename into its place too', async () => {
  const directory = folder({ 'tollgate.yaml': 'owned_by: aa' })
  const config = await configOf({}, {}, directory)
  const { stamp, source } = config
  if (source === null) throw new Error('no source')
  expect(await source.stamp()).toBe(stamp)
  writeFileSync(join(directory, 'next'), 'owned_by: bb')
  renameSync(join(directory, 'next'), join(directory, 'tollgate.yaml'))
  const renamed = await source.stamp()
  expect(renamed).not.toBe(stamp)
  rmSync(join(directory, 'tollgate.yaml'))
  expect(await source.stamp()).toBeNull()
})

test('payments are in test mode without a settings file on this machine, and off or named elsewhere', async () => {
  const paymentsOf = async (flags: ConfigFlags, directory?: string) =>
    (await configOf(flags, {}, directory)).settings.fixed.payments
  expect(await paymentsOf({})).toMatchObject({ provider: { name: 'local' } })
  expect(await paymentsOf({ host: '::1' })).toMatchObject({ provider: { name: 'local' } })
  expect(await paymentsOf({ host: '0.0.0.0' })).toBeNull()
  expect(await paymentsOf({}, folder({ 'tollgate.yaml': 'log_level: info' }))).toBeNull()
  // A database of the operator's own has customers, and its settings file is missing.
  const external = { DATABASE_URL: 'postgres://u@127.0.0.1/d' }
  expect((await configOf({}, external)).settings).toMatchObject({ plans: [], fixed: { payments: null } })
  // The embedded database of a group is named to its processes.
  const member = { ...external, TOLLGATE_MEMBER: JSON.stringify({ isEmbedded: true }) }
  expect((await configOf({}, member)).settings.fixed.payments).toMatchObject({ provider: { name: 'local' } })
  const plansOf = async (flags: ConfigFlags) => (await configOf(flags)).settings.plans.map(({ key }) => key)
  expect(await plansOf({})).toEqual(['sandbox'])
  expect(await plansOf({ host: '0.0.0.0' })).toEqual([])
})

test('payments on an address that others reach need the public URL', async () => {
  const named = 'payments: { provider: local }'
  expect(await problemsOf({ host: '0.0.0.0' }, {}, folder({ 'tollgate.yaml': named }))).toEqual([
    expect.stringContaining('public_url: is missing'),
  ])
  const whole = folder({ 'tollgate.yaml': `${named}\npublic_url: https://gateway.example/` })
  const { fixed } = (await configOf({ host: '0.0.0.0' }, {}, whole)).settings
  expect(fixed).toMatchObject({ publicUrl: 'https://gateway.example', payments: { provider: { name: 'local' } } })
})

test('with passkeys people reach the server by a name', async () => {
  const problems = async (publicUrl: string, flags: ConfigFlags = {}) =>
    problemsOf(flags, {}, folder({ 'tollgate.yaml': `accounts: { passkeys: true }\n${publicUrl}` }))
  for (const named of ['https://gateway.example', 'http://localhost:8080'])
    expect(await problems(`public_url: ${named}`)).toEqual([])
  for (const bare of ['http://127.0.0.1:8080', 'http://[::1]:8080', 'https://192.0.2.1'])
    expect(await problems(`public_url: "${bare}"`)).toEqual([expect.stringContaining('must have a host name')])
  expect(await problems('')).toEqual([expect.stringContaining('must have a host name')])
  expect(await problems('', { host: 'localhost' })).toEqual([])
})

test('with accounts, passwords and cookies never travel in the open', async () => {
  const accounts = (publicUrl: string) => folder({ 'tollgate.yaml': `accounts: {}\n${publicUrl}` })
  const problems = async (flags: ConfigFlags, publicUrl = '') => problemsOf(flags, {}, accounts(publicUrl))
  expect(await problems({ host: '0.0.0.0' })).toEqual([expect.stringContaining('public_url: is missing')])
  expect(await problems({}, 'public_url: http://gateway.example')).toEqual([
    expect.stringContaining('public_url: must be https'),
  ])
  for (const publicUrl of ['', 'public_url: http://127.0.0.1:8080', 'public_url: https://gateway.example'])
    expect(await problems({}, publicUrl)).toEqual([])
})

test.each([
  ['passkeys without a name', {}, 'accounts: { passkeys: true }', false],
  ['passkeys on an address with a name', { host: 'localhost' }, 'accounts: { passkeys: true }', true],
  ['passkeys with a public URL', {}, 'accounts: { passkeys: true }\npublic_url: https://gateway.example', true],
  ['accounts that others reach', { host: '0.0.0.0' }, 'accounts: {}', false],
  ['accounts in the open', {}, 'accounts: {}\npublic_url: http://gateway.example', false],
  ['payments that others reach', { host: '0.0.0.0' }, 'payments: { provider: local }', false],
  ['payments on this machine', {}, 'payments: { provider: local }', true],
] as const)('a changed file is taken where a start would take it: %s', async (_, flags, text, isGood) => {
  const directory = folder()
  const { watched } = await configOf(flags, {}, directory)
  writeFileSync(join(directory, 'tollgate.yaml'), text)
  const changed = await watched?.reload(systemClock)
  expect([changed?.ok, (await loadConfig(flags, {}, directory)).ok]).toEqual([isGood, isGood])
  if (changed?.ok === false) expect(changed.problems).toEqual([expect.objectContaining({ path: 'public_url' })])
})

test('nobody signs in unless the settings say so; a session lasts 1 to 90 days, 7 unless set', async () => {
  expect((await configOf({})).settings.fixed.accounts).toBeNull()
  const days = async (text: string) => {
    const loaded = await loadConfig({}, {}, folder({ 'tollgate.yaml': text }))
    return loaded.ok ? loaded.config.settings.fixed.accounts?.sessionDays : 'refused'
  }
  expect(await days('accounts: {}')).toBe(7)
  expect(await days('accounts: { session_days: 90 }')).toBe(90)
  for (const wrong of ['0', '91', '1.5', 'yes'])
    expect(await days(`accounts: { session_days: ${wrong} }`)).toBe('refused')
})
