/** As many histories of deposits on real PostgreSQL as fit into the suite's share of the time, new ones every day. */

import { expect, test } from 'bun:test'
import { freshSeeds, longSeconds } from '../seeds.ts'
import { runDepositHistories } from './runDepositHistories.ts'

const SLACK_MS = 60_000

test(
  'deposits, seed after seed',
  async () => {
    const { first: firstSeed, goesOn } = freshSeeds({ aDay: 100_000 })
    const { failures, count } = await runDepositHistories(firstSeed, goesOn)
    console.log(`seeds: ${count} of deposits, from ${firstSeed}, ${failures.length} failed`)
    expect(failures).toEqual([])
  },
  longSeconds() * 1_000 + SLACK_MS,
)
