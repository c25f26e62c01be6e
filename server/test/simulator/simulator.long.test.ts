/** As many seeds of the simulator as fit into the suite's share of the time, new ones every day. */

import { expect, test } from 'bun:test'
import { freshSeeds, longSeconds } from '../seeds.ts'
import { runMany } from './runMany.ts'

const SLACK_MS = 60_000

test(
  'the simulator, seed after seed',
  async () => {
    const seeds = freshSeeds({ aDay: 100_000 })
    const { failures, count, tightest } = await runMany(seeds.first, seeds.goesOn)
    console.log(`seeds: ${count} of the simulator, from ${seeds.first}, ${failures.length} failed; ${tightest}`)
    expect(failures).toEqual([])
  },
  longSeconds() * 1_000 + SLACK_MS,
)
