/** A client that reads nothing of its stream and leaves pays for all that the provider had sent, wherever that was kept. */

import { afterAll, beforeAll, expect, test } from 'bun:test'
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net'
import { openDirectory } from '../dataDirectory.ts'
import { head, piece } from '../rawServer.ts'
import { startServer, type TestServer } from '../server.ts'
import { postUnread } from '../unreadRequest.ts'
import { until } from '../until.ts'

const LIMIT_MS = 60_000
/** Far more than the gateway keeps in memory of a stream that nobody reads, and less than the buffers of two connections take. */
const TOKENS = 5_000

let provider: Server
let server: TestServer
/** The connections at which all tokens were handed to the operating system. */
let sent = 0
const open = new Set<Socket>()

beforeAll(async () => {
  provider = createServer((socket) => {
    open.add(socket)
    socket.on('error', () => {})
    socket.on('close', () => open.delete(socket))
    socket.once('data', () => {
      socket.write(head())
      const event = { choices: [{ index: 0, delta: { content: ' word' }, finish_reason: null }] }
      const chunk = piece(`data: ${JSON.stringify(event)}\n\n`)
      for (let token = 0; token < TOKENS; token += 1) socket.write(chunk)
      // It goes on with its answer, and says nothing more for now.
      socket.write('', () => {
        sent += 1
      })
    })
  })
  await new Promise<void>((resolve) => provider.listen(0, '127.0.0.1', resolve))
  const url = `http://127.0.0.1:${(provider.address() as AddressInfo).port}/v1`
  server = await startServer({
    settings: `
providers: { wordy: { dialect: openai, base_url: "${url}" } }
models:
  - id: svc/wordy
    context_length: 100000
    pricing: { input_per_1m_tokens_cents: 100, output_per_1m_tokens_cents: 100 }
    targets: [{ provider: wordy, model: any }]
`,
  })
}, LIMIT_MS)

afterAll(async () => {
  await server.remove()
  for (const socket of open) socket.destroy()
  provider.close()
}, LIMIT_MS)

test(
  'what was sent is charged',
  async () => {
    const called = { port: Number(new URL(server.url).port), key: server.firstKey }
    const question = { model: 'svc/wordy', stream: true, messages: [{ role: 'user', content: 'Go on' }] }
    const socket = postUnread(called, '/chat/completions', question)
    await until(() => sent === 1)
    socket.destroy()
    await until(() => open.size === 0)
    const database = await openDirectory(server.dataDir)
    const charges = () =>
      database.query<{ outcome: string; tokens: bigint }>(
        'select outcome, completion_tokens::bigint as tokens from named_charges',
      )
    await until(async () => (await charges()).length > 0)
    const [charge] = await charges()
    expect(charge?.outcome).toBe('cancelled')
    // Counted in pieces, each of which may begin within a word.
    expect(Number(charge?.tokens)).toBeGreaterThanOrEqual(TOKENS)
    expect(Number(charge?.tokens)).toBeLessThan(1.01 * TOKENS)
    await database.close()
  },
  LIMIT_MS,
)
