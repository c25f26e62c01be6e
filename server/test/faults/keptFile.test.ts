/** A process that dies after an answer's file is there, and before the row names it: the answer is made again, and charged once. */

import { afterAll, expect, test } from 'bun:test'
import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { openDirectory } from '../dataDirectory.ts'
import { startServer, type TestServer } from '../server.ts'
import { askFor, EMBEDDED_TOKENS, startCountingProvider } from './countingProvider.ts'

/** A start renames a file or two; no more are looked at. */
const RENAMES_MOST = 12
const RENAMES = '?rename,renameat,renameat2'

let last: TestServer | null = null
afterAll(() => last?.remove(), 60_000)

test('killed between the file of a large answer and its commit', async () => {
  const provider = startCountingProvider()
  const settings = `
providers: { counting: { dialect: openai, base_url: "${provider.url}" } }
models:
  - id: svc/vectors
    modality: embedding
    context_length: 512
    pricing: { input_per_1m_tokens_cents: 1 }
    targets: [{ provider: counting, model: answers }]
`
  const first = await startServer({ settings })
  last = first
  const { dataDir, firstKey: key } = first
  // Its database is left running, so that it is not traced.
  await first.kill()
  const answers = join(dataDir, 'artifacts', 'answers')
  const ask = (server: TestServer) =>
    fetch(`${server.url}/embeddings`, {
      method: 'POST',
      headers: { Authorization: `Bearer ${key}`, 'Idempotency-Key': 'once' },
      body: JSON.stringify({ model: 'svc/vectors', input: askFor(1, 60) }),
    })
  const files = () => readdir(answers).catch(() => [])
  let dying: TestServer | null = null
  for (let nth = 1; nth <= RENAMES_MOST && dying === null; nth += 1) {
    // -D: the gateway itself is our child. A call that is injected a signal is carried out first.
    const inject = `inject=${RENAMES}:signal=SIGKILL:when=${nth}`
    const wrapper = ['strace', '-D', '-f', '-o', '/dev/null', '-e', `trace=${RENAMES}`, '-e', inject]
    // It may die at a rename of its own start.
    dying = await startServer({ settings, dataDir, wrapper }).catch(() => null)
  }
  if (dying === null) throw new Error('no start got through')
  const ended = new Promise((resolve) => dying?.process.once('exit', resolve))
  expect(String(await ask(dying).catch((error: unknown) => error))).toMatch(/closed|reset|ECONN/i)
  await ended
  expect(await files()).toHaveLength(1)

  const server = await startServer({ settings, dataDir })
  last = server
  const good = await ask(server)
  const text = await good.text()
  expect([good.status, text.length > 256 * 1_024]).toEqual([200, true])
  const again = await ask(server)
  expect([again.headers.get('Idempotency-Replayed'), (await again.text()) === text]).toEqual(['true', true])
  const database = await openDirectory(dataDir)
  expect(await database.query('select prompt_tokens as tokens from named_charges')).toEqual([
    { tokens: BigInt(EMBEDDED_TOKENS) },
  ])
  await database.close()
  // One of them is nobody's, until the sweep.
  expect(await files()).toHaveLength(2)
  await provider.stop()
}, 120_000)
