import { afterEach, describe, expect, test } from 'bun:test'
import { TurnedClock } from '../../../test/clock.ts'
import { type Asked, jobServer, wholeOf } from '../../../test/jobServer.ts'
import { providerFailureOf } from '../../../test/providerFailure.ts'
import { readWorkflow, type Workflow } from '../../catalog/workflow.ts'
import { createHttp } from '../../infra/httpClient/client.ts'
import type { VideoCall, VideoState, VideoWork } from '../dialect/spec.ts'
import { comfyuiProvider } from './comfyui.ts'
import { fillWorkflow } from './fill.ts'

const clock = new TurnedClock()
const http = createHttp(clock)
const CONNECT_MS = 5_000
const signal = new AbortController().signal
const ID = '0190a000-0000-7000-8000-000000000001'
const CALL: VideoCall = {
  model: 'wan',
  prompt: 'a "toll" gate {{seed}}\n{{prompt}}',
  seconds: 4,
  size: { width: 640, height: 352 },
  attemptId: ID,
}
const TEMPLATE = JSON.stringify({
  '3': { class_type: 'KSampler', inputs: { seed: '{{seed}}', steps: 20, positive: ['6', 0] } },
  '6': { class_type: 'CLIPTextEncode', inputs: { text: 'best quality, {{ prompt }}, {{seconds}} s' } },
  '7': {
    class_type: 'EmptyVideo',
    inputs: { width: '{{width:832}}', height: ' {{height:480}} ', length: '{{frames:16}}' },
  },
})

function workflowOf(text: string): Workflow {
  const read = readWorkflow(text)
  if ('workflow' in read) return read.workflow
  throw new Error(read.fault)
}

const running: { stop(): void }[] = []
afterEach(() => {
  for (const server of running.splice(0)) server.stop()
})

function over(answer: (asked: Asked, index: number) => Response) {
  const server = jobServer(answer)
  running.push(server)
  const workflows = { wan: workflowOf(TEMPLATE) }
  const provider = comfyuiProvider({
    name: 'c',
    baseUrl: server.url,
    apiKey: null,
    extraHeaders: {},
    workflows,
    http,
    clock,
  })
  return { server, video: provider.video as Required<VideoWork> }
}

/** A server on which a job is somewhere, and of which the rest is empty. */
function withJob(at: { running?: string; pending?: string; past?: object }) {
  const item = (id?: string) =>
    id === undefined
      ? []
      : [
          [3, 'another-job', {}, {}, []],
          [4, id, {}, {}, []],
        ]
  return over(({ path, method }) => {
    if (path === '/queue' && method === 'GET') {
      return Response.json({ queue_running: item(at.running), queue_pending: item(at.pending) })
    }
    if (path.startsWith('/history/')) return Response.json(at.past === undefined ? {} : { [ID]: at.past })
    return new Response(path.startsWith('/view') ? 'the clip' : null)
  })
}

const MP4 = { filename: 'ComfyUI_00001_.mp4', subfolder: 'video & more', type: 'output' }
const past = (outputs: object, word = 'success', messages: unknown[] = []) => ({
  outputs,
  status: { status_str: word, completed: word === 'success', messages },
})

describe('a workflow', () => {
  test('is filled: numbers as numbers, and nothing of what a client wrote is a place', () => {
    const filled = fillWorkflow(workflowOf(TEMPLATE), CALL) as Record<string, { inputs: Record<string, unknown> }>
    expect(filled['6']?.inputs['text']).toBe(`best quality, ${CALL.prompt}, 4 s`)
    expect(filled['7']?.inputs).toEqual({ width: 640, height: 352, length: 65 })
    expect(filled['3']?.inputs).toEqual({ seed: expect.any(Number), steps: 20, positive: ['6', 0] })
    expect(Number.isSafeInteger(filled['3']?.inputs['seed'])).toBe(true)
  })

  test('has a size of its own, and another seed for each attempt', () => {
    const seedAndSize = (call: VideoCall) => {
      const filled = fillWorkflow(workflowOf(TEMPLATE), call) as Record<string, { inputs: Record<string, unknown> }>
      return [filled['3']?.inputs['seed'], filled['7']?.inputs['width'], filled['7']?.inputs['height']]
    }
    const [seed, ...size] = seedAndSize({ ...CALL, size: null })
    expect(size).toEqual([832, 480])
    expect(seedAndSize({ ...CALL, attemptId: 'other' })[0]).not.toBe(seed)
    expect(seedAndSize(CALL)[0]).toBe(seed)
  })

  test.each([
    ['{', 'is not JSON'],
    ['{}', "with 'Export (API)'"],
    ['{"nodes":[],"links":[]}', "with 'Export (API)'"],
    ['[]', "with 'Export (API)'"],
    [TEMPLATE.replace('{{ prompt }}', 'x'), 'no {{prompt}}'],
    [TEMPLATE.replace('{{seed}}', '{{colour}}'), 'has the unknown placeholder {{colour}}'],
    [TEMPLATE.replace('{{frames:16}}', '{{frames}}'), 'has {{frames}} without a number'],
    [TEMPLATE.replace('{{width:832}}', '{{width:0}}'), 'without a number'],
    [TEMPLATE.replace('{{seed}}', '{{seed:4}}'), 'with a number'],
  ])('%p is refused', (text, fault) => {
    expect(readWorkflow(text)).toEqual({ fault: expect.stringContaining(fault) })
  })
})

test('a job is queued under the id of its attempt', async () => {
  const { server, video } = over(() => Response.json({ prompt_id: ID, number: 3, node_errors: {} }))
  expect(await video.submit(CALL, signal, CONNECT_MS)).toBe(ID)
  expect(server.asked.map(({ method, path }) => `${method} ${path}`)).toEqual(['POST /prompt'])
  expect(JSON.parse(server.asked[0]?.body ?? '')).toEqual({
    prompt: fillWorkflow(workflowOf(TEMPLATE), CALL),
    prompt_id: ID,
    client_id: ID,
  })
})

test('a refusal is the operator’s matter', async () => {
  const { video } = over(() =>
    Response.json(
      { error: { type: 'prompt_outputs_failed_validation', message: 'canary' }, node_errors: {} },
      { status: 400 },
    ),
  )
  const failure = await providerFailureOf(video.submit(CALL, signal, CONNECT_MS))
  expect([failure.kind, failure.publicMessage, failure.message.includes('canary')]).toEqual([
    'misconfigured',
    null,
    false,
  ])
  expect((await providerFailureOf(video.submit({ ...CALL, model: 'none' }, signal, CONNECT_MS))).kind).toBe(
    'misconfigured',
  )
})

const states: [string, Parameters<typeof withJob>[0], VideoState][] = [
  ['pending', { pending: ID }, { kind: 'waiting' }],
  ['running', { running: ID }, { kind: 'working', progress: null }],
  ['nowhere', {}, { kind: 'unknown' }],
  ['done', { past: past({ '9': { images: [MP4], animated: [true] } }) }, { kind: 'done' }],
  [
    'done, by another node',
    { past: past({ '9': { gifs: [{ ...MP4, format: 'video/h264-mp4' }] } }) },
    { kind: 'done' },
  ],
  [
    'over without an mp4',
    { past: past({ '9': { images: [{ ...MP4, filename: 'a.webm' }] } }) },
    { kind: 'failed', code: 'upstream_error', detail: 'the workflow has saved no mp4' },
  ],
  [
    'failed',
    {
      past: past({}, 'error', [
        ['execution_start', {}],
        [
          'execution_error',
          { node_type: 'KSampler', exception_type: 'torch.OutOfMemoryError', exception_message: 'canary' },
        ],
      ]),
    },
    { kind: 'failed', code: 'upstream_error', detail: 'the job failed: KSampler, torch.OutOfMemoryError' },
  ],
  [
    'interrupted',
    { past: past({ '9': { images: [MP4] } }, 'error', [['execution_interrupted', {}]]) },
    { kind: 'failed', code: 'upstream_error', detail: 'the job was interrupted' },
  ],
]

test.each(states)('a job that is %s', async (_name, at, state) => {
  expect(await withJob(at).video.look(ID, signal, CONNECT_MS)).toEqual(state)
})

test('an attempt whose answer was lost is found wherever it is', async () => {
  for (const at of [{ pending: ID }, { running: ID }, { past: past({}) }]) {
    expect(await withJob(at).video.find(ID, signal, CONNECT_MS)).toBe(ID)
  }
  expect(await withJob({}).video.find(ID, signal, CONNECT_MS)).toBeNull()
})

test('the clip is fetched by its name, a kept file before a passing one', async () => {
  const passing = { ...MP4, filename: 'preview.mp4', type: 'temp' }
  const { server, video } = withJob({ past: past({ '8': { images: [passing] }, '9': { images: [MP4] } }) })
  expect((await wholeOf(await video.download(ID, signal, CONNECT_MS))).toString()).toBe('the clip')
  const asked = new URL(server.asked.at(-1)?.path ?? '', 'http://x')
  expect([asked.pathname, Object.fromEntries(asked.searchParams)]).toEqual(['/view', MP4])
  expect((await providerFailureOf(withJob({}).video.download(ID, signal, CONNECT_MS))).kind).toBe('faulty')
})

test('cancelling takes a job from the queue, and interrupts it only while it is the one that runs', async () => {
  const asked = async (at: Parameters<typeof withJob>[0]) => {
    const { server, video } = withJob(at)
    await video.cancel(ID, signal, CONNECT_MS)
    return server.asked.filter(({ method }) => method === 'POST').map(({ path, body }) => [path, JSON.parse(body)])
  }
  const deleted = ['/queue', { delete: [ID] }]
  expect(await asked({ running: ID })).toEqual([deleted, ['/interrupt', { prompt_id: ID }]])
  expect(await asked({ pending: ID })).toEqual([deleted])
  expect(await asked({})).toEqual([deleted])
})

test('a server that is away, or is none, is a failure', async () => {
  const { video } = over(() => new Response('<html>', { headers: { 'content-type': 'text/html' } }))
  expect((await providerFailureOf(video.look(ID, signal, CONNECT_MS))).kind).toBe('faulty')
  expect((await providerFailureOf(video.find(ID, signal, CONNECT_MS))).kind).toBe('faulty')
  const { video: failing } = over(() => new Response('', { status: 500 }))
  expect((await providerFailureOf(failing.look(ID, signal, CONNECT_MS))).kind).toBe('unavailable')
})
