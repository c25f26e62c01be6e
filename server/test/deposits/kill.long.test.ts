/** Two gateways with deposits are killed and come back while payments arrive, for the suite's share of the time. */

import { afterAll, beforeAll, expect, test } from 'bun:test'
import { freshSeeds, longSeconds } from '../seeds.ts'
import { isAnvilThere } from './anvil.ts'
import { type DepositKillRunner, depositReplayOf, startDepositKillRunner } from './killRound.ts'

/** Beyond the time for rounds: starting, coming to rest, stopping. */
const SLACK_MS = 60_000
const { first: firstSeed, goesOn } = freshSeeds({ aDay: 10_000 })

if (!isAnvilThere()) console.warn('skipped, there is no anvil on this platform')
const withAnvil = test.skipIf(!isAnvilThere())

let runner: DepositKillRunner | undefined
beforeAll(async () => {
  if (isAnvilThere()) runner = await startDepositKillRunner()
}, SLACK_MS)
afterAll(() => runner?.close(), SLACK_MS)

withAnvil(
  'however gateways are killed, the credits are the payments that the chain has made final, each once',
  async () => {
    const failures: string[] = []
    let seeds = 0
    let last = { credits: 0, kills: 0 }
    do {
      const seed = firstSeed + seeds
      // The first round is a whole one.
      const { problems, ...counts } = await (runner?.run(seed, () => seeds > 0 && !goesOn()) ??
        Promise.reject(new Error('there is no runner')))
      for (const problem of problems) failures.push(`${problem} (${depositReplayOf(seed)})`)
      last = counts
      seeds += 1
    } while (goesOn())
    const { credits, kills } = last
    console.log(
      `seeds: ${seeds} of deposits with kills, from ${firstSeed}; ${credits} credits, ${kills} kills, ${failures.length} problems`,
    )
    expect(failures).toEqual([])
    expect([credits, kills].map((count) => count >= seeds)).toEqual([true, true])
  },
  longSeconds() * 1_000 + SLACK_MS,
)
