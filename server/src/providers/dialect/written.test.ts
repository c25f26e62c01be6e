/** Every dialect tells its caller when the request has been written. */

import { afterAll, beforeAll, expect, test } from 'bun:test'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type RawServer, rawServer } from '../../../test/rawServer.ts'
import { SILENCE } from '../../../test/silence.ts'
import '../../../test/ggufEngine.ts'
import { writeTinyGguf } from '../../../test/tinyGguf.ts'
import { type ProviderSettings, type RemoteDialect, SANDBOX_DEFAULTS } from '../../catalog/provider.ts'
import { systemClock } from '../../infra/clock.ts'
import { createHttp } from '../../infra/httpClient/client.ts'
import { ByteBudget } from '../../lib/byteBudget.ts'
import { createProviderClients, type ProviderClients } from '../clients.ts'
import { createVectorWork, type VectorWork } from '../vectors/work.ts'
import type { Provider } from './spec.ts'

const CONNECT_MS = 5_000
/** Answers of these tests are small. */
const NO_ROOM = new ByteBudget(0, 0, 0).open('one')

let folder: string
let server: RawServer
let vectors: VectorWork
let clients: ProviderClients

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'written-'))
  // It takes every request and never answers.
  server = await rawServer(() => {})
  vectors = createVectorWork(SILENCE)
  clients = createProviderClients({
    http: createHttp(systemClock),
    clock: systemClock,
    log: SILENCE,
    vectors,
    environment: {},
  })
})

afterAll(async () => {
  await clients.close()
  await vectors.close()
  server.stop()
  rmSync(folder, { recursive: true, force: true })
})

type Way = 'chat' | 'embed' | 'draw'

/** Asks, and goes on when it was told that the request has been written; then leaves. Says how often it was told. */
async function countWritten(provider: Provider, way: Way): Promise<number> {
  const leaving = new AbortController()
  let count = 0
  const { promise: written, resolve } = Promise.withResolvers<void>()
  const onWritten = () => {
    count += 1
    resolve()
  }
  const asked = ask(provider, way, leaving.signal, onWritten)
  asked.catch(() => {})
  await Promise.race([written, asked.then(() => written)])
  leaving.abort('left')
  await asked.catch(() => {})
  return count
}

async function ask(provider: Provider, way: Way, signal: AbortSignal, onWritten: () => void): Promise<unknown> {
  if (way === 'embed') {
    const call = { model: 'm', inputs: ['hi'], dimensions: null, user: null }
    return provider.embed?.(call, signal, CONNECT_MS, NO_ROOM, onWritten)
  }
  if (way === 'draw') {
    return provider.draw?.({ model: 'm', prompt: 'hi', count: 1, size: null }, signal, CONNECT_MS, NO_ROOM, onWritten)
  }
  const messages = [{ role: 'user' as const, content: 'hi' }]
  const call = { model: 'm', messages, maxTokens: 4, outputTokens: 4, temperature: null }
  return provider.chat(call, signal, CONNECT_MS, onWritten)
}

test.each<[RemoteDialect, Way]>([
  ['openai', 'chat'],
  ['openai', 'embed'],
  ['openai', 'draw'],
  ['anthropic', 'chat'],
  ['gemini', 'chat'],
  ['sdcpp', 'draw'],
])('%s, %s: told once, when the server has the request', async (dialect, way) => {
  const before = server.requests.length
  const settings = { name: 'u', dialect, baseUrl: `${server.url}/v1`, apiKey: null, headers: {} }
  const counting = countWritten(clients.clientFor(settings), way)
  await server.requested(before + 1)
  expect(await counting).toBe(1)
})

const SANDBOX: ProviderSettings = { name: 's', dialect: 'sandbox', ...SANDBOX_DEFAULTS }

test.each<[Way]>([['chat'], ['embed'], ['draw']])('sandbox, %s: told once, when its work begins', async (way) => {
  expect(await countWritten(clients.clientFor(SANDBOX), way)).toBe(1)
})

test.each<[Way]>([['chat'], ['embed']])('gguf, %s: told once, when the child was sent the request', async (way) => {
  const file = writeTinyGguf(join(folder, 'tiny.gguf'), { contextTokens: 512 })
  const settings: ProviderSettings = { name: 'g', dialect: 'gguf', file, sequences: 1, contextTokens: 512 }
  expect(await countWritten(clients.clientFor(settings), way)).toBe(1)
  await clients.keepOnly([])
})
