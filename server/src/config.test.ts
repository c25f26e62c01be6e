import { afterAll, expect, test } from 'bun:test'
import { mkdirSync, mkdtempSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { inspect } from 'node:util'
import type { Environment } from './config/settingsFile.ts'
import { type Config, type ConfigFlags, loadConfig } from './config.ts'

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

/** What several processes cannot be started without. */
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

test('what the environment sets holds through a reload too', async () => {
  const directory = folder({ 'tollgate.yaml': 'log_level: debug' })
  const config = await configOf({}, { TOLLGATE_LOG_LEVEL: 'warn' }, directory)
  const loaded = await config.source?.load()
  expect(loaded?.ok && loaded.settings.fixed.logLevel).toBe('warn')
})

test('several processes are refused a model of their own, at start and when the file changes', async () => {
  const text = 'upstreams:\n  own: { dialect: gguf, file: m.gguf }\n'
  const directory = folder({ 'tollgate.yaml': text, 'm.gguf': '' })
  expect((await configOf({}, {}, directory)).settings.upstreams).toHaveLength(1)
  expect(await problemsOf({ processes: '2' }, SHARED, directory)).toEqual([
    expect.stringMatching(/^tollgate.yaml:2:19: upstreams.own.dialect: GGUF files are run by one process: take /),
  ])
  const later = folder({ 'tollgate.yaml': 'owned_by: a', 'm.gguf': '' })
  const config = await configOf({ processes: '2' }, SHARED, later)
  writeFileSync(join(later, 'tollgate.yaml'), text)
  expect(await config.source?.load()).toMatchObject({ ok: false })
})

const REFUSED: readonly (readonly [ConfigFlags, Environment, RegExp])[] = [
  [{ port: '65536' }, {}, /^--port: '65536' is no port/],
  [{}, { OTEL_EXPORTER_OTLP_ENDPOINT: 'c:4318' }, /^OTEL_EXPORTER_OTLP_ENDPOINT: must be an address/],
  [{ port: '-1' }, {}, /^--port: '-1' is no port/],
  [{ port: '' }, {}, /^--port: '' is no port/],
  [{ port: '80a' }, {}, /^--port/],
  [{}, { TOLLGATE_PORT: 'http' }, /^TOLLGATE_PORT: 'http' is no port/],
  [{ 'admin-port': '8080' }, {}, /^--admin-port: must differ from the port, 8080/],
  [{ host: 'http://x' }, {}, /^--host: 'http:\/\/x' is no address/],
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
  const config = await configOf({}, { DATABASE_URL: 'postgres://u:canary@h/d', REDIS_URL: 'rediss://:canary@h' })
  expect(config.databaseUrl?.reveal()).toContain('canary')
  expect(config.redisUrl?.reveal()).toContain('canary')
  expect(inspect(config, { depth: 9, showHidden: true })).not.toContain('canary')
  expect(JSON.stringify({ databaseUrl: config.databaseUrl })).not.toContain('canary')
})

test('the data key shows in no dump', async () => {
  const config = await configOf({}, { TOLLGATE_DATA_KEY: 'ab'.repeat(32) })
  expect(config.dataKey?.reveal()).toBe('ab'.repeat(32))
  expect(inspect(config, { depth: 9, showHidden: true })).not.toContain('abababab')
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
