/** As many seeds of the kill test with idempotency keys as fit into the suite's share of the time. */

import { expect, test } from 'bun:test'
import { freshSeeds, longSeconds } from '../seeds.ts'
import { startKeyedRunner } from './idempotencyRun.ts'

/** Beyond the time for seeds: the last of them, start and stop. */
const SLACK_MS = 180_000

test.each([
  ['one process that dies', false],
  ['two processes of which one dies', true],
])(
  'keyed requests through a kill, seed after seed: %s',
  async (name, paired) => {
    const { first: firstSeed } = freshSeeds({ aDay: 1_000 })
    const runner = await startKeyedRunner({ paired })
    // Half of the share for each of the two.
    const untilMs = performance.now() + (longSeconds() * 1_000) / 2
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
  longSeconds() * 1_000 + SLACK_MS,
)
