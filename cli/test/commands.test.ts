/** Every command in pipes, as programs use it: the built command on Node, against a real server with its sandbox models. */

import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from 'bun:test'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createDescription, type Description } from '../../server/test/acceptance/description.ts'
import type { Ended } from '../../server/test/acceptance/terminal.ts'
import { startServer, type TestServer } from '../../server/test/server.ts'
import { typeCli } from './typeCli.ts'

setDefaultTimeout(60_000)

let server: TestServer
let folder: string
let described: Description
let managed: Description
beforeAll(async () => {
  server = await startServer()
  folder = await mkdtemp(join(tmpdir(), 'tollgate-test-'))
  const read = async (path: string) => createDescription(await (await fetch(new URL(path, server.url))).json())
  described = await read('/v1/openapi.json')
  managed = await read('/manage/openapi.json')
})
afterAll(async () => {
  await server?.remove()
  if (folder !== undefined) await rm(folder, { recursive: true, force: true })
})

function type(words: readonly string[], input?: string, environment: Record<string, string> = {}): Promise<Ended> {
  const own = { TOLLGATE_API_KEY: server.firstKey, TOLLGATE_URL: server.url, ...environment }
  return typeCli(words, { folder, environment: own, ...(input !== undefined && { input }) }).ended
}

async function json<T = Record<string, unknown>>(words: readonly string[], input?: string): Promise<T> {
  const { code, stdout, stderr } = await type([...words, '--json', '--no-input'], input)
  expect({ code, stderr, lines: stdout.split('\n').length }).toEqual({ code: 0, stderr: '', lines: 2 })
  return JSON.parse(stdout)
}

const FILM = ['--model', 'svc/sandbox-video', '--seconds', '1', '--size', '320x180']
const QUICK = '[[sandbox video_seconds_per_second=0]] x'

describe('with --json stdout holds the one answer that the server describes, and stderr nothing', () => {
  test.each<[string[], string, string?]>([
    [['chat', 'What', 'is', 'it?', '--model', 'svc/sandbox', '--max-tokens', '5'], 'ChatCompletionResponse'],
    [['chat', '--model', 'svc/sandbox', '--system', 'Be brief.', '--temperature', '0'], 'ChatCompletionResponse', 'Hi'],
    [['embed', 'one', 'two', '--model', 'svc/sandbox-embedding'], 'EmbeddingsResponse'],
    [['image', 'a gate', '--model', 'svc/sandbox-image', '--size', '256x256'], 'ImagesResponse'],
    [['models'], 'ModelList'],
    [['models', '--modality', 'video'], 'ModelList'],
    [['models', 'svc/sandbox'], 'Model'],
    [['preflight', 'svc/sandbox:economy'], 'InferencePreflight'],
    [['usage', '--start', '7d', '--bucket', 'day', '--limit', '10'], 'UsagePage'],
    [['balance'], 'Balance'],
    [['limits', 'set', '--monthly', '100', '--daily', '12.50', '--enforcement', 'notify_only'], 'SpendingLimit'],
    [['limits'], 'SpendingLimit'],
    [['video', 'create', QUICK, ...FILM], 'VideoJob'],
    [['video', 'list', '--limit', '5'], 'VideoList'],
    [['webhooks', 'create', 'https://hooks.example.com/', '--events', 'video.failed'], 'NewWebhookEndpoint'],
    [['webhooks', 'list'], 'WebhookEndpointPage'],
  ])('%j: %s', async (words, schema, input) => {
    described.checkSchema(schema, await json(words, input))
  })

  test.each<[string[], string]>([
    [['topup', '12.50'], 'Payment'],
    [['usage', '--group-by', 'model,day'], 'UsageGroupPage'],
    [['webhooks', 'deliveries'], 'DeliveryPage'],
  ])('%j: %s of the management', async (words, schema) => {
    managed.checkSchema(schema, await json(words))
  })

  test('video cancel: the job, cancelled', async () => {
    const slow = '[[sandbox video_seconds_per_second=0.001]] x'
    const { id } = await json<{ id: string }>(['video', 'create', slow, ...FILM])
    const cancelled = await json(['video', 'cancel', id])
    described.checkSchema('VideoJob', cancelled)
    expect(cancelled).toMatchObject({ id, status: 'cancelled', cost_cents: null })
  })
})

describe('a login', () => {
  const login = { TOLLGATE_API_KEY: '', TOLLGATE_URL: '' }
  const words = () => ['login', '--with-token', '--server', server.url, '--json']
  const file = () => join(folder, 'tollgate/logins.json')

  test('reads the key from stdin, keeps it in a file of mode 0600, and the next command uses it', async () => {
    const { code, stdout, stderr } = await type(words(), `${server.firstKey}\n`, login)
    expect([code, stderr]).toEqual([0, ''])
    const url = server.url.replace(/\/v1$/, '')
    expect(JSON.parse(stdout)).toEqual({ server: url, stored_in: 'file', file: file() })
    expect(stdout).not.toContain(server.firstKey)
    const stat = await Bun.file(file()).stat()
    expect((stat.mode & 0o777).toString(8)).toBe('600')

    const who = await type(['whoami', '--json'], undefined, login)
    const { server: named, key, key_from: from, ...own } = JSON.parse(who.stdout)
    expect([named, key, from]).toEqual([url, `${server.firstKey.slice(0, 13)}…`, 'file'])
    managed.checkSchema('OwnApiKey', own)
    expect(own).toMatchObject({ person: null, organization: { name: 'default' }, levels: { instances: 'write' } })
    expect(await type(['balance'], undefined, login)).toMatchObject({ code: 0, stderr: '' })
  })

  test("the environment's key goes first, and a key never goes to another server than its own", async () => {
    const made = await server.command('keys', 'create', '--org', 'default', '--scope', 'billing:read')
    const who = await type(['whoami', '--json'], undefined, { ...login, TOLLGATE_API_KEY: String(made['key']) })
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
    const elsewhere = await type(['balance', '--server', `http://127.0.0.1:${other.port}`], undefined, login)
    await other.stop(true)
    expect([elsewhere.code, asked]).toEqual([4, []])
  })

  test('a file that others may read is refused', async () => {
    await Bun.$`chmod 644 ${file()}`
    const { code, stderr } = await type(['balance'], undefined, login)
    expect([code, stderr]).toEqual([
      1,
      `tollgate: other users of this machine may read ${file()}: run "chmod 600 ${file()}"\n`,
    ])
    await Bun.$`chmod 600 ${file()}`
  })

  test('a key that the server does not know is not kept', async () => {
    const refused = await type(words(), `svc_live_${'a'.repeat(24)}`, login)
    expect([refused.code, refused.stdout]).toEqual([4, ''])
    expect((await type(words(), 'no key at all', login)).code).toBe(4)
    expect(await readFile(file(), 'utf8')).toContain(server.firstKey)
  })

  test('a key of the environment that the server does not know is said to be that of the environment', async () => {
    const key = `svc_live_${'a'.repeat(24)}`
    const { code, stderr } = await type(['balance'], undefined, { ...login, TOLLGATE_API_KEY: key })
    expect([code, stderr]).toEqual([4, expect.stringContaining('The key is from TOLLGATE_API_KEY: set another there')])
    expect(stderr).not.toContain(key)
  })

  test('logout forgets it, and the next command asks for a login', async () => {
    expect((await type(['logout'], undefined, { ...login, TOLLGATE_URL: server.url })).code).toBe(0)
    expect(await readFile(file(), 'utf8')).not.toContain(server.firstKey)
    const { code, stdout, stderr } = await type(['balance', '--json'], undefined, {
      ...login,
      TOLLGATE_URL: server.url,
    })
    expect([code, stdout, JSON.parse(stderr).error.code]).toEqual([4, '', 'login_needed'])
    expect((await type(['logout'], undefined, { ...login, TOLLGATE_URL: server.url })).code).toBe(1)
  })
})

describe('text', () => {
  test('an answer is streamed to stdout alone, whatever stderr and NO_COLOR are', async () => {
    for (const environment of [{}, { NO_COLOR: '1' }]) {
      const { code, stdout, stderr } = await type(['chat', 'Hi', '--model', 'svc/sandbox'], undefined, environment)
      expect([code, stderr]).toEqual([0, ''])
      expect(stdout).toMatch(/^This is a simulated answer .+\n$/)
      expect(stdout).not.toContain('\u001b')
    }
  })

  test('standard input is the prompt, or is added where "-" stands', async () => {
    const environment = { TOLLGATE_MODEL: 'svc/sandbox' }
    expect((await type(['chat'], 'the whole prompt', environment)).stdout).toContain('the whole prompt')
    expect((await type(['chat', 'Sum', 'up:', '-'], 'notes', environment)).stdout).toContain('Sum up:\n\nnotes')
  })

  test('an answer that breaks off is a failure, after what was said', async () => {
    const words = ['chat', '[[sandbox fail=drop after=3]]', '--model', 'svc/sandbox']
    const { code, stderr } = await type(words)
    expect(code).toBe(1)
    expect(stderr).toMatch(/^tollgate: [^\n]+\n$/)
  })

  test('vectors are a line each, of the lines of standard input', async () => {
    const { stdout } = await type(['embed', '--model', 'svc/sandbox-embedding'], 'one\ntwo\n\nthree\n')
    const vectors = stdout
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line))
    expect(vectors.map((vector) => vector.length)).toEqual([1024, 1024, 1024].map(() => vectors[0].length))
  })

  test('images are saved, several with a number each', async () => {
    const words = [
      'image',
      'a gate',
      '--model',
      'svc/sandbox-image',
      '--size',
      '256x256',
      '--n',
      '2',
      '--output',
      'gate.png',
    ]
    expect((await type(words)).stdout).toBe('Saved gate-1.png, gate-2.png for $0.04.\n')
    for (const name of ['gate-1.png', 'gate-2.png']) {
      expect((await readFile(join(folder, name))).subarray(1, 4).toString()).toBe('PNG')
    }
  })

  test('a video is made, waited for, looked at, saved and listed; one that is complete is not cancelled', async () => {
    const { id } = await json<{ id: string }>(['video', 'create', QUICK, ...FILM])
    const waited = await json(['video', 'wait', id, '--output', 'wait.mp4'])
    const { output, ...video } = waited
    expect(output).toBe('wait.mp4')
    described.checkSchema('VideoJob', video)
    described.checkSchema('VideoJob', await json(['video', 'get', id]))
    expect((await type(['video', 'get', id])).stdout).toMatch(/^Status +completed\n[\s\S]*Cost +5 cents\n$/)
    expect((await type(['video', 'download', id, '--output', 'again.mp4'])).code).toBe(0)
    expect(await readFile(join(folder, 'again.mp4'))).toEqual(await readFile(join(folder, 'wait.mp4')))
    expect((await type(['video', 'list'])).stdout).toContain(`${id}  completed  svc/sandbox-video  0.05\n`)
    expect((await type(['video', 'cancel', id])).stderr).toContain("can't be cancelled any more: it is completed")
  })

  test('usage is shown by model and key, below a cent in tenths of one', async () => {
    const { stdout } = await type(['usage', '--group-by', 'model,key', '--start', '1d'])
    expect(stdout).toMatch(/^MODEL +KEY +REQUESTS +TOKENS IN +TOKENS OUT +COST\n/)
    expect(stdout).toMatch(/\nsvc\/sandbox +[0-9a-f-]{36} +\d+ +\d+ +\d+ +(\$0\.00\d|below \$0\.001|\$\d+\.\d\d)\n/)
    expect(stdout).toMatch(/\nTotal: \$\d+\.\d\d\.\n$/)
  })

  test('without a spending limit limits says so, and has not failed', async () => {
    await server.command('orgs', 'create', 'limitless')
    const { key } = await server.command('keys', 'create', '--org', 'limitless', '--scope', 'billing:read')
    const environment = { TOLLGATE_API_KEY: String(key) }
    const { code, stdout, stderr } = await type(['limits'], undefined, environment)
    expect([code, stderr]).toEqual([0, ''])
    expect(stdout).toBe('No spending limit is set: "tollgate limits set --monthly USD" sets one.\n')
    expect((await type(['limits', '--json'], undefined, environment)).stdout).toBe('null\n')
  })

  test('a call that would be refused ends preflight with 1', async () => {
    await server.command('orgs', 'create', 'poor')
    const { key } = await server.command('keys', 'create', '--org', 'poor', '--scope', 'full_access')
    const { code, stdout } = await type(['preflight', 'svc/sandbox'], undefined, { TOLLGATE_API_KEY: String(key) })
    expect([code, stdout]).toEqual([1, expect.stringMatching(/^block: .*\n$/)])
  })

  test('help and version need neither server nor key, and name every command', async () => {
    const bare = { TOLLGATE_API_KEY: '', TOLLGATE_URL: 'nonsense' }
    expect(await type(['--version'], undefined, bare)).toEqual({
      code: 0,
      stdout: expect.stringMatching(/^tollgate \d+\.\d+\.\d+\n$/),
      stderr: '',
    })
    const help = await type([], undefined, bare)
    for (const name of [
      'login',
      'chat',
      'image',
      'embed',
      'video',
      'models',
      'usage',
      'topup',
      'listen',
      'completion',
    ]) {
      expect(help.stdout).toContain(`\n  ${name} `)
    }
    expect(help.stdout).toContain('video                         create, list, get, wait, cancel, download\n')
    expect((await type(['help', 'chat'], undefined, bare)).stdout).toContain('--max-tokens <N>')
  })
})
