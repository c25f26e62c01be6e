/** As many seeds of the kill test as fit into the suite's share of the time, new ones every day. */

import { expect, test } from 'bun:test'
import { freshSeeds, longSeconds } from '../seeds.ts'
import { replayOf, startKillRunner } from './killRun.ts'

/** Beyond the time for seeds: the last of them, start and stop. */
const SLACK_MS = 180_000

test(
  'the kill test, seed after seed',
  async () => {
    const { first: firstSeed, goesOn } = freshSeeds({ aDay: 10_000 })
    const runner = await startKillRunner()
    const failures: string[] = []
    let seeds = 0
    let answers = 0
    while (goesOn()) {
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
  longSeconds() * 1_000 + SLACK_MS,
)
