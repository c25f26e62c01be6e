/** As many seeds of the kill test as fit into the time given by TOLLGATE_LONG_SECONDS, new ones every day. */

import { expect, test } from 'bun:test'
import { replayOf, startKillRunner } from './killRun.ts'

const SECONDS = Number(process.env['TOLLGATE_LONG_SECONDS'] ?? '60')
/** Beyond the time for seeds: the last of them, start and stop. */
const SLACK_MS = 180_000

test(
  'the kill test, seed after seed',
  async () => {
    // Away from the seeds of `npm test`, and others each day; what fails says how to run it again.
    const firstSeed = 1_000 + 10_000 * Math.floor(Date.now() / 86_400_000)
    const untilMs = performance.now() + SECONDS * 1_000
    const runner = await startKillRunner()
    const failures: string[] = []
    let seeds = 0
    let answers = 0
    while (performance.now() < untilMs) {
      const { problems, whole } = await runner.run(firstSeed + seeds)
      for (const problem of problems) failures.push(`${problem} (${replayOf(firstSeed + seeds)})`)
      seeds += 1
      answers += whole
    }
    await runner.close()
    console.log(
      `seeds: ${seeds} of the kill test, from ${firstSeed}; ${answers} whole answers, ${failures.length} problems`,
    )
    expect(failures).toEqual([])
  },
  SECONDS * 1_000 + SLACK_MS,
)
