import { expect, test } from 'bun:test'
import { existsSync, readFileSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { preload } from '../preload.ts'
import { HEAP_FILE } from '../restingHeap.ts'
import { startServer } from '../server.ts'
import { until } from '../until.ts'

const ROOT = join(import.meta.dirname, '../../..')
/** Accounts and payments load most of what a server can. */
const SETTINGS = 'public_url: http://127.0.0.1:8080\naccounts: {}\npayments: { provider: local }\n'

test('less than two thirds of the heap is alive at rest: with more, every collection would be a full one', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'tollgate-test-'))
  const loaded = await preload(join(import.meta.dirname, '../restingHeap.ts'))
  const file = join(folder, 'bytes')
  const server = await startServer({
    settings: SETTINGS,
    environment: { ...loaded.environment, [HEAP_FILE]: file },
  })
  try {
    const answer = await fetch(`${server.url}/chat/completions`, {
      method: 'POST',
      headers: { Authorization: `Bearer ${server.firstKey}` },
      body: JSON.stringify({ model: 'svc/sandbox', messages: [{ role: 'user', content: 'hello' }] }),
    })
    expect(answer.status).toBe(200)
    server.process.kill('SIGUSR2')
    await until(() => existsSync(file) && readFileSync(file, 'utf8') !== '')
    const collectedAt = Number(/largeHeapSize:-(\d+)/.exec(readFileSync(join(ROOT, 'tollgate'), 'utf8'))?.[1])
    expect(collectedAt).toBeGreaterThan(0)
    expect(Number(readFileSync(file, 'utf8'))).toBeLessThan((collectedAt * 2) / 3)
  } finally {
    await server.remove()
    await loaded.remove()
    await rm(folder, { recursive: true })
  }
})
