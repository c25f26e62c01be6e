/** As many histories of payments as fit into the suite's share of the time, new ones every day. */

import { expect, test } from 'bun:test'
import { freshSeeds, longSeconds } from '../seeds.ts'
import { runPaymentHistories } from './runPaymentHistories.ts'

const SLACK_MS = 60_000

test(
  'payments, seed after seed',
  async () => {
    const { first: firstSeed, goesOn } = freshSeeds({ aDay: 100_000 })
    const { failures, count } = await runPaymentHistories(firstSeed, goesOn)
    console.log(`seeds: ${count} of payments, from ${firstSeed}, ${failures.length} failed`)
    expect(failures).toEqual([])
  },
  longSeconds() * 1_000 + SLACK_MS,
)
