/** Every command in pipes, as programs use it: the built command on Node, against a real server with its sandbox models. */

import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from 'bun:test'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { createDescription, type Description } from '../../server/test/acceptance/description.ts'
import { type CliServer, startCliServer } from './typeCli.ts'

setDefaultTimeout(60_000)

let cli: CliServer
let described: Description
let managed: Description
beforeAll(async () => {
  cli = await startCliServer()
  const read = async (path: string) => createDescription(await (await fetch(new URL(path, cli.server.url))).json())
  described = await read('/v1/openapi.json')
  managed = await read('/manage/openapi.json')
})
afterAll(() => cli?.remove())

async function json<T = Record<string, unknown>>(words: readonly string[], input?: string): Promise<T> {
  const { code, stdout, stderr } = await cli.type([...words, '--json', '--no-input'], input)
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
    [['usage', '--group-by', 'instance_id'], 'UsagePage'],
    [['usage', '--group-by', 'gpu_type', '--bucket', 'day'], 'UsagePage'],
    [['balance'], 'Balance'],
    [['limits', 'set', '--monthly', '100', '--daily', '12.50', '--enforcement', 'notify_only'], 'SpendingLimit'],
    [['limits'], 'SpendingLimit'],
    [['video', 'create', QUICK, ...FILM], 'VideoJob'],
    [['video', 'list', '--limit', '5'], 'VideoList'],
    [['webhooks', 'create', 'https://hooks.example.com/', '--events', 'video.failed'], 'NewWebhookEndpoint'],
    [['webhooks', 'list'], 'WebhookEndpointPage'],
  ])('%j: %s', async (words, schema, input) => {
    const { cost_usd: cost, ...answer } = await json(words, input)
    described.checkSchema(schema, answer)
    if (['chat', 'image', 'embed'].includes(words[0] ?? '')) expect(cost).toMatch(/^0\.\d{2,8}$/)
    else expect(cost).toBeUndefined()
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

// The fetch of Node ends each answer that has not begun after 300 s; a whole answer may take 600 s.
test.each([[['chat', 'Hi', '--model', 'svc/sandbox']], [['embed', 'one', '--model', 'svc/sandbox-embedding']]])(
  '%j is asked without the fetch of Node, whose time limit is shorter than that of an answer',
  async (words) => {
    const broken = 'globalThis.fetch=()=>Promise.reject()'
    const environment = { NODE_OPTIONS: `--import=data:text/javascript,${broken}` }
    const { code, stderr } = await cli.type([...words, '--json'], '', environment)
    expect([code, stderr]).toEqual([0, ''])
  },
)

describe('text', () => {
  test('an answer is streamed to stdout alone, whatever stderr and NO_COLOR are', async () => {
    for (const environment of [{}, { NO_COLOR: '1' }]) {
      const { code, stdout, stderr } = await cli.type(['chat', 'Hi', '--model', 'svc/sandbox'], undefined, environment)
      expect([code, stderr]).toEqual([0, ''])
      expect(stdout).toMatch(/^This is a simulated answer .+\n$/)
      expect(stdout).not.toContain('\u001b')
    }
  })

  test('standard input is the prompt, or is added where "-" stands', async () => {
    const environment = { TOLLGATE_MODEL: 'svc/sandbox' }
    expect((await cli.type(['chat'], 'the whole prompt', environment)).stdout).toContain('the whole prompt')
    expect((await cli.type(['chat', 'Sum', 'up:', '-'], 'notes', environment)).stdout).toContain('Sum up:\n\nnotes')
  })

  test('an answer that breaks off is a failure, after what was said', async () => {
    const words = ['chat', '[[sandbox fail=drop after=3]]', '--model', 'svc/sandbox']
    const { code, stderr } = await cli.type(words)
    expect(code).toBe(1)
    expect(stderr).toMatch(/^tollgate: [^\n]+\n$/)
    expect(stderr).not.toContain("can't be reached")
  })

  test('vectors are a line each, of the lines of standard input', async () => {
    const { stdout } = await cli.type(['embed', '--model', 'svc/sandbox-embedding'], 'one\ntwo\nthree\n\n')
    const vectors = stdout
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line))
    expect(vectors.map((vector) => vector.length)).toEqual([1024, 1024, 1024].map(() => vectors[0].length))
  })

  test('an empty line among the texts is refused with its number', async () => {
    const { code, stdout, stderr } = await cli.type(['embed', '--model', 'svc/sandbox-embedding'], 'a\nb\n\nc\n')
    expect([code, stdout, stderr]).toEqual([2, '', expect.stringContaining('line 3 of standard input is empty')])
  })

  test('the tier that was asked for is part of the name over its price', async () => {
    expect((await cli.type(['models', 'svc/sandbox:economy'])).stdout).toMatch(/^Model +svc\/sandbox:economy\n/)
    expect((await cli.type(['models', 'sandbox'])).stdout).toMatch(/^Model +svc\/sandbox\n/)
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
    expect((await cli.type(words)).stdout).toBe('Saved gate-1.png, gate-2.png for $0.04.\n')
    for (const name of ['gate-1.png', 'gate-2.png']) {
      expect((await readFile(join(cli.folder, name))).subarray(1, 4).toString()).toBe('PNG')
    }
  })

  test('the same key gets the same image again and is charged once; a place without room is found before', async () => {
    const words = ['image', 'twice', '--model', 'svc/sandbox-image', '--size', '256x256', '--idempotency-key', 'k-1']
    expect((await cli.type([...words, '--output', 'first.png'])).stdout).toBe('Saved first.png for $0.02.\n')
    expect((await cli.type([...words, '--output', 'again.png'])).stdout).toBe('Saved again.png for $0.00.\n')
    expect(await readFile(join(cli.folder, 'again.png'))).toEqual(await readFile(join(cli.folder, 'first.png')))
    const balance = async () => (await cli.type(['balance', '--json'])).stdout
    const before = await balance()
    const small = [...words.slice(0, -2), '--output', 'small.png']
    // Files of 51,200 bytes at most, and no signal for a larger one.
    const limited = await cli.type(small, undefined, {}, 'trap \'\' XFSZ; ulimit -f 100; exec "$@"')
    expect([limited.code, limited.stderr]).toEqual([2, expect.stringContaining("small.png can't be written")])
    expect([await balance(), await Bun.file(join(cli.folder, 'small.png')).exists()]).toEqual([before, false])
  })

  test('the effect of a spending limit is explained, and so is a time ago', async () => {
    await cli.type(['limits', 'set', '--monthly', '100', '--enforcement', 'block_launch'])
    expect((await cli.type(['limits'])).stdout).toMatch(
      /At the limit +block_launch: new calls are refused; running ones/,
    )
    for (const word of ['stop_running', 'block_launch', 'notify_only']) {
      expect((await cli.type(['help', 'limits', 'set'])).stdout).toContain(`${word}:`)
    }
    const { code, stderr } = await cli.type(['usage', '--start', '7d', '--end', '8d'])
    expect([code, stderr]).toEqual([2, expect.stringContaining('8d is earlier than 7d')])
  })

  test('a video that waits is not charged yet', async () => {
    const slow = '[[sandbox video_seconds_per_second=0.001]] x'
    const { id } = await json<{ id: string }>(['video', 'create', slow, ...FILM])
    expect((await cli.type(['video', 'get', id])).stdout).toMatch(/\nCost +not charged yet\n/)
    await cli.type(['video', 'cancel', id])
    expect((await cli.type(['video', 'get', id])).stdout).toMatch(/\nCost +not charged\n/)
  })

  test('a video is made, waited for, looked at, saved and listed; one that is complete is not cancelled', async () => {
    const { id } = await json<{ id: string }>(['video', 'create', QUICK, ...FILM])
    const waited = await json(['video', 'wait', id, '--output', 'wait.mp4'])
    const { output, ...video } = waited
    expect(output).toBe('wait.mp4')
    described.checkSchema('VideoJob', video)
    described.checkSchema('VideoJob', await json(['video', 'get', id]))
    expect((await cli.type(['video', 'get', id])).stdout).toMatch(/^Status +completed\n[\s\S]*Cost +\$0\.05\n$/)
    expect((await cli.type(['video', 'download', id, '--output', 'again.mp4'])).code).toBe(0)
    expect(await readFile(join(cli.folder, 'again.mp4'))).toEqual(await readFile(join(cli.folder, 'wait.mp4')))
    expect((await cli.type(['video', 'list'])).stdout).toContain(`${id}  completed  svc/sandbox-video  $0.05\n`)
    expect((await cli.type(['video', 'cancel', id])).stderr).toContain("can't be cancelled any more: it is completed")
  })

  test('usage is shown by model and key, below a cent in tenths of one', async () => {
    const { stdout } = await cli.type(['usage', '--group-by', 'model,key', '--start', '1d'])
    expect(stdout).toMatch(/^MODEL +KEY +REQUESTS +TOKENS IN +TOKENS OUT +COST\n/)
    expect(stdout).toMatch(/\nsvc\/sandbox +[0-9a-f-]{36} +\d+ +\d+ +\d+ +(\$0\.00\d|below \$0\.001|\$\d+\.\d\d)\n/)
    expect(stdout).toMatch(/\nTotal: \$\d+\.\d\d\.\n$/)
  })

  test('without a spending limit limits says so, and has not failed', async () => {
    await cli.server.command('orgs', 'create', 'limitless')
    const { key } = await cli.server.command('keys', 'create', '--org', 'limitless', '--scope', 'billing:read')
    const environment = { TOLLGATE_API_KEY: String(key) }
    const { code, stdout, stderr } = await cli.type(['limits'], undefined, environment)
    expect([code, stderr]).toEqual([0, ''])
    expect(stdout).toBe('No spending limit is set. An admin may set one: "tollgate limits set --monthly USD".\n')
    expect((await cli.type(['limits', '--json'], undefined, environment)).stdout).toBe('null\n')
  })

  test('a call that would be refused ends preflight with 1', async () => {
    await cli.server.command('orgs', 'create', 'poor')
    const { key } = await cli.server.command('keys', 'create', '--org', 'poor', '--scope', 'full_access')
    const { code, stdout } = await cli.type(['preflight', 'svc/sandbox'], undefined, { TOLLGATE_API_KEY: String(key) })
    expect([code, stdout]).toEqual([1, expect.stringMatching(/^block: .*\n$/)])
  })

  test('help and version need neither server nor key, and name every command', async () => {
    const bare = { TOLLGATE_API_KEY: '', TOLLGATE_URL: 'nonsense' }
    expect(await cli.type(['--version'], undefined, bare)).toEqual({
      code: 0,
      stdout: expect.stringMatching(/^tollgate \d+\.\d+\.\d+\n$/),
      stderr: '',
    })
    const help = await cli.type([], undefined, bare)
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
    expect((await cli.type(['help', 'chat'], undefined, bare)).stdout).toContain('--max-tokens <N>')
  })
})
