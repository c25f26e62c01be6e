/** Requests with an Idempotency-Key, sent by several clients at once, through a kill -9: one answer and one charge each. */

import { afterAll, beforeAll, expect, test } from 'bun:test'
import { startServer } from '../server.ts'
import { type KeyedRunner, startKeyedRunner } from './idempotencyRun.ts'

const SEEDS = 4
/** A seed takes 2 s; a machine that is busy with other things may take many times that. */
const LIMIT_MS = 120_000

let runner: KeyedRunner
beforeAll(async () => {
  runner = await startKeyedRunner()
}, LIMIT_MS)
afterAll(() => runner.close(), LIMIT_MS)

let struck = 0
for (let seed = 1; seed <= SEEDS; seed += 1) {
  test(
    `seed ${seed}: each key has one answer and one charge`,
    async () => {
      const { problems, cut } = await runner.run(seed)
      expect(problems).toEqual([])
      struck += cut
    },
    LIMIT_MS,
  )
}

test('some requests were cut off', () => {
  expect(struck).toBeGreaterThan(0)
})

test(
  'a start with another data key is refused in one sentence',
  async () => {
    const server = await startServer()
    expect(await server.stop()).toBe(0)
    const wrong = startServer({ dataDir: server.dataDir, environment: { TOLLGATE_DATA_KEY: 'ab'.repeat(32) } })
    const said = String(await wrong.catch((error: unknown) => error))
    expect(said).toContain('is not the one that this database was written with')
    expect(said).not.toContain('abababab')
    await server.remove()
  },
  LIMIT_MS,
)
