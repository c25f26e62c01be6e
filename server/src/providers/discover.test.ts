import { afterEach, expect, test } from 'bun:test'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { TurnedClock } from '../../test/clock.ts'
import { discover, type LocalServer } from './discover.ts'

const servers: Server[] = []

afterEach(() => {
  for (const server of servers.splice(0)) {
    server.closeAllConnections()
    server.close()
  }
})

type Answers = Readonly<Record<string, object | string | 'silence' | ((body: string) => object | null)>>

/** A server on a free port that answers with what is given for a path, and 404 else. */
async function serve(answers: Answers): Promise<{ port: number; requests: string[] }> {
  const requests: string[] = []
  const server = createServer(async (request, response) => {
    requests.push(request.url ?? '')
    let body = ''
    for await (const part of request) body += part
    const given = answers[request.url ?? '']
    const answer = typeof given === 'function' ? (given(body) ?? undefined) : given
    if (answer === 'silence') return
    response.writeHead(answer === undefined ? 404 : 200)
    response.end(typeof answer === 'string' ? answer : JSON.stringify(answer))
  })
  servers.push(server)
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return { port: (server.address() as AddressInfo).port, requests }
}

const listOf = (owner: string, ...ids: string[]) => ({
  object: 'list',
  data: ids.map((id) => ({ id, object: 'model', owned_by: owner })),
})

function find(endpoints: readonly LocalServer[], more: { skipPorts?: number[]; modelsFolder?: string } = {}) {
  const clock = new TurnedClock()
  return discover({ clock, skipPorts: [], modelsFolder: '/nonexistent', timeoutMs: 500, endpoints, ...more })
}

const OLLAMA = {
  '/v1/models': listOf('library', 'llama3.2:1b', 'all-minilm:latest', 'nomic-embed-text:latest', 'flux:latest'),
  '/api/tags': {
    models: [
      { name: 'llama3.2:1b', details: { family: 'llama' } },
      { name: 'all-minilm:latest', details: { family: 'bert' } },
      { name: 'nomic-embed-text:latest', details: { family: 'nomic-bert' } },
      { name: 'flux:latest', details: { family: 'flux' } },
    ],
  },
}

test('Ollama is found, with what each model can do', async () => {
  const capabilities: Readonly<Record<string, string[]>> = {
    'llama3.2:1b': ['completion', 'tools'],
    'all-minilm:latest': ['embedding'],
    'nomic-embed-text:latest': ['embedding'],
    'flux:latest': ['image'],
  }
  const show = (body: string) => ({ capabilities: capabilities[JSON.parse(body).model] })
  const { port } = await serve({ ...OLLAMA, '/api/show': show })
  expect(await find([{ port, details: '/api/tags' }])).toEqual([
    {
      kind: 'http',
      product: 'Ollama',
      baseUrl: `http://127.0.0.1:${port}/v1`,
      models: ['llama3.2:1b'],
      embeddingModels: ['all-minilm:latest', 'nomic-embed-text:latest'],
    },
  ])
})

test('an Ollama that does not say what its models can do: those that seem to embed are left out', async () => {
  const { port } = await serve(OLLAMA)
  const [found] = await find([{ port, details: '/api/tags' }])
  expect(found).toMatchObject({ models: ['llama3.2:1b', 'flux:latest'], embeddingModels: [] })
})

test('LM Studio is found, its models by their types', async () => {
  const { port } = await serve({
    '/v1/models': listOf('organization_owner', 'qwen3-4b', 'bge-m3', 'gemma-vision', 'text-embedding-x', 'whisper'),
    '/api/v0/models': {
      data: [
        { id: 'qwen3-4b', type: 'llm' },
        { id: 'bge-m3', type: 'embeddings' },
        { id: 'gemma-vision', type: 'vlm' },
        { id: 'text-embedding-x', type: 'embeddings' },
        { id: 'whisper', type: 'stt' },
      ],
    },
  })
  const [found] = await find([{ port, details: '/api/v0/models' }])
  expect(found).toMatchObject({
    product: 'LM Studio',
    models: ['qwen3-4b', 'gemma-vision'],
    embeddingModels: ['bge-m3', 'text-embedding-x'],
  })
})

test.each([
  ['llamacpp', 'llama.cpp server'],
  ['vllm', 'vLLM'],
  ['sglang', 'SGLang'],
  ['somebody', 'OpenAI-compatible server'],
])('models owned by %p are those of a %s', async (owner, product) => {
  const { port } = await serve({ '/v1/models': listOf(owner, 'm') })
  expect(await find([{ port, details: null }])).toMatchObject([{ product, models: ['m'] }])
})

test.each<[string, Answers]>([
  ['no such path', {}],
  ['a web page', { '/v1/models': '<html></html>' }],
  ['JSON of another kind', { '/v1/models': { models: ['m'] } }],
  ['no models', { '/v1/models': listOf('vllm') }],
  ['nothing but models that embed', { '/v1/models': listOf('vllm', 'text-embedding-3') }],
  ['a list without ids', { '/v1/models': { object: 'list', data: [{ name: 'm' }] } }],
  ['more than a list has', { '/v1/models': JSON.stringify(listOf('x'.repeat(2_000_000), 'm')) }],
])('%s: not a model server', async (_, answers) => {
  const { port } = await serve(answers)
  expect(await find([{ port, details: null }])).toEqual([])
})

test('a port where nobody listens is passed over', async () => {
  const { port } = await serve({})
  for (const server of servers.splice(0)) server.close()
  expect(await find([{ port, details: null }])).toEqual([])
})

test('a port of our own is never asked', async () => {
  const { port, requests } = await serve({ '/v1/models': listOf('vllm', 'm') })
  expect(await find([{ port, details: null }], { skipPorts: [port] })).toEqual([])
  expect(requests).toEqual([])
})

test('a server that does not answer in time is not there; those that did are', async () => {
  const silent = await serve({ '/v1/models': 'silence' })
  const quick = await serve({ '/v1/models': listOf('vllm', 'm') })
  const clock = new TurnedClock()
  const endpoints = [silent, quick].map(({ port }) => ({ port, details: null }))
  const found = discover({ clock, skipPorts: [], modelsFolder: '/nonexistent', timeoutMs: 500, endpoints })
  while (silent.requests.length === 0 || quick.requests.length === 0)
    await new Promise((resolve) => setImmediate(resolve))
  for (let turn = 0; turn < 20; turn += 1) await clock.turn(0)
  await clock.turn(500)
  expect(await found).toMatchObject([{ kind: 'http', models: ['m'] }])
  expect(clock.pending).toBe(0)
})

test('GGUF files of the folder are found: no parts, no projectors, no files that only look like one', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'discover-'))
  for (const name of [
    'b.gguf',
    'A.GGUF',
    'big-00001-of-00002.gguf',
    'big-00002-of-00002.gguf',
    'mmproj-b.gguf',
    '.hidden.gguf',
    'c.gguf.part',
    'c.gguf.part.ipull',
  ]) {
    writeFileSync(join(folder, name), 'GGUF...')
  }
  writeFileSync(join(folder, 'page.gguf'), '<html>')
  mkdirSync(join(folder, 'folder.gguf'))
  expect(await find([], { modelsFolder: folder })).toEqual([
    { kind: 'gguf', file: join(folder, 'A.GGUF'), name: 'A' },
    { kind: 'gguf', file: join(folder, 'b.gguf'), name: 'b' },
    { kind: 'gguf', file: join(folder, 'big-00001-of-00002.gguf'), name: 'big-00001-of-00002' },
  ])
  rmSync(folder, { recursive: true })
})
