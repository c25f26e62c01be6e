/** As many seeds of the kill test with idempotency keys as fit into the time given by TOLLGATE_LONG_SECONDS. */

import { expect, test } from 'bun:test'
import { startKeyedRunner } from './idempotencyRun.ts'

const SECONDS = Number(process.env['TOLLGATE_LONG_SECONDS'] ?? '60')
/** Beyond the time for seeds: the last of them, start and stop. */
const SLACK_MS = 180_000

test.each([
  ['one process that dies', false],
  ['two processes of which one dies', true],
])(
  'keyed requests through a kill, seed after seed: %s',
  async (name, paired) => {
    const firstSeed = 100 + Math.floor(Date.now() / 86_400_000)
    const runner = await startKeyedRunner({ paired })
    const untilMs = performance.now() + (SECONDS * 1_000) / 2
    const failures: string[] = []
    let [seeds, whole, cut] = [0, 0, 0]
    while (performance.now() < untilMs) {
      const result = await runner.run(firstSeed + seeds)
      for (const problem of result.problems) failures.push(`${problem} (seed ${firstSeed + seeds})`)
      seeds += 1
      whole += result.whole
      cut += result.cut
    }
    await runner.close()
    console.log(
      `seeds: ${seeds} of the keyed kill test, ${name}, from ${firstSeed}; ${whole} whole answers, ${cut} cut off, ${failures.length} problems`,
    )
    expect(failures).toEqual([])
  },
  SECONDS * 1_000 + SLACK_MS,
)
