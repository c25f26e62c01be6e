import { afterAll, beforeAll, expect, test } from 'bun:test'
import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { startRedis, type TestRedis } from '../../test/redis.ts'
import { startServer, type TestServer } from '../../test/server.ts'

const CALLS = 60

let redis: TestRedis
let server: TestServer
const several = (processes: number) => ({ TOLLGATE_PROCESSES: `${processes}`, REDIS_URL: redis.url })
beforeAll(async () => {
  redis = await startRedis()
  server = await startServer({ environment: several(3) })
}, 120_000)
afterAll(async () => {
  await server.remove()
  await redis.kill()
}, 60_000)

/** The gateways: the children of the process that was started. */
async function children(): Promise<number[]> {
  const found: number[] = []
  for (const name of await readdir('/proc')) {
    const stat = /^\d+$/.test(name) ? await readFile(`/proc/${name}/stat`, 'utf8').catch(() => '') : ''
    const line = stat === '' ? '' : await readFile(`/proc/${name}/cmdline`, 'utf8').catch(() => '')
    const parent = Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[1])
    if (parent === server.process.pid && line.includes('--admin-port')) found.push(Number(name))
  }
  return found
}

/** One call on a connection of its own, so that the system spreads them; the status, or 0. */
async function call(): Promise<number> {
  return (await callWith({})).status
}

async function callWith(more: Record<string, string>): Promise<{ status: number; text: string }> {
  try {
    const response = await fetch(`${server.url}/chat/completions`, {
      method: 'POST',
      keepalive: false,
      headers: { Authorization: `Bearer ${server.firstKey}`, Connection: 'close', ...more },
      body: JSON.stringify({ model: 'svc/sandbox', max_tokens: 5, messages: [{ role: 'user', content: 'Hello.' }] }),
    })
    return { status: response.status, text: await response.text() }
  } catch {
    return { status: 0, text: '' }
  }
}

async function calls(): Promise<Set<number>> {
  return new Set(await Promise.all(Array.from({ length: CALLS }, call)))
}

test('an answer that one process has kept is given again by all: they share a data key', async () => {
  const once = { 'Idempotency-Key': 'shared' }
  const first = await callWith(once)
  expect(first.status).toBe(200)
  const again = await Promise.all(Array.from({ length: CALLS }, () => callWith(once)))
  expect(new Set(again.map(({ text }) => text))).toEqual(new Set([first.text]))
  const keys = (await readdir(server.dataDir, { recursive: true })).filter((name) => name.endsWith('data.key'))
  expect(keys).toEqual(['data.key'])
}, 120_000)

test('several processes share a port, one that dies is replaced, and all end with the one that started them', async () => {
  const [model] = JSON.parse(server.output()).models
  expect(typeof model).toBe('string')
  expect(server.firstKey).toMatch(/^svc_live_/)
  const before = await children()
  expect(before).toHaveLength(3)
  expect(await calls()).toEqual(new Set([200]))
  process.kill(before[1] ?? 0, 'SIGKILL')
  while ((await children()).length !== 2) await new Promise((resolve) => setTimeout(resolve, 20))
  while ((await children()).length !== 3) await new Promise((resolve) => setTimeout(resolve, 100))
  while (!(await calls()).has(200)) await new Promise((resolve) => setTimeout(resolve, 100))
  const last = await children()
  expect(await server.stop()).toBe(0)
  for (const pid of [...before, ...last]) expect(() => process.kill(pid, 0)).toThrow()
}, 120_000)

test('when the one that started them is killed, they end too, and the next start takes over', async () => {
  server = await startServer({ dataDir: server.dataDir, environment: several(2) })
  const left = await children()
  expect(left).toHaveLength(2)
  await server.kill()
  const isThere = (pid: number) => {
    try {
      process.kill(pid, 0)
      return true
    } catch {
      return false
    }
  }
  while (left.some(isThere)) await new Promise((resolve) => setTimeout(resolve, 50))
  server = await startServer({ dataDir: server.dataDir, environment: several(2) })
  expect(await children()).toHaveLength(2)
}, 120_000)

test('a GGUF file is refused in one sentence, since each process would load it', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'tollgate-gguf-'))
  const file = join(folder, 'some.gguf')
  await writeFile(file, 'not read')
  const settings = `providers: { mine: { dialect: gguf, file: ${file} } }`
  const started = startServer({ settings, environment: several(2) })
  await expect(started).rejects.toThrow(/GGUF files need --processes 1/)
  await rm(folder, { recursive: true })
}, 60_000)

test('each has the credentials of providers; a GGUF file that is added while they run is refused, and what was served stays', async () => {
  const settings = (more: string) => `providers:
  box: { dialect: sandbox }
  far: { dialect: openai, base_url: "http://127.0.0.1:9/v1", api_key_env: FAR_KEY }
${more}models:
  - id: svc/sandbox
    context_length: 4096
    pricing: { input_per_1m_tokens_cents: 1, output_per_1m_tokens_cents: 1 }
    targets: [{ provider: box }]
`
  const environment = { ...several(2), FAR_KEY: 'a-key' }
  await server.stop()
  const withFile = await startServer({ settings: settings(''), environment })
  try {
    const file = join(withFile.dataDir, 'tollgate.yaml')
    const gguf = join(withFile.dataDir, 'm.gguf')
    await writeFile(gguf, 'GGUF')
    const served = await readFile(file, 'utf8')
    await writeFile(file, settings(`  own: { dialect: gguf, file: ${gguf} }\n`))
    withFile.process.kill('SIGHUP')
    const refusals = () =>
      withFile
        .errors()
        .split('\n')
        .filter((line) => line.includes('GGUF files need --processes 1'))
    while (refusals().length < 2) await new Promise((resolve) => setTimeout(resolve, 50))
    for (const line of refusals()) {
      expect(line).toContain('the changed settings file has mistakes; the settings in force stay')
      expect(line).toContain('tollgate.yaml:4:')
    }
    server = withFile
    expect(await calls()).toEqual(new Set([200]))
    await writeFile(file, `${served}owned_by: somebody\n`)
    withFile.process.kill('SIGHUP')
    const taken = () => withFile.errors().split('the changed settings are in effect').length - 1
    while (taken() < 2) await new Promise((resolve) => setTimeout(resolve, 50))
    expect(await withFile.stop()).toBe(0)
    // As at start.
    await writeFile(file, settings(`  own: { dialect: gguf, file: ${gguf} }\n`))
    const again = startServer({ dataDir: withFile.dataDir, settings: await readFile(file, 'utf8'), environment })
    await expect(again).rejects.toThrow('GGUF files need --processes 1')
  } finally {
    await withFile.remove()
  }
}, 120_000)
