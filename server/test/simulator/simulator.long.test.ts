/** As many seeds of the simulator as fit into the time given by TOLLGATE_LONG_SECONDS, new ones every day. */

import { expect, test } from 'bun:test'
import { runMany } from './runMany.ts'

const SECONDS = Number(process.env['TOLLGATE_LONG_SECONDS'] ?? '60')
const SLACK_MS = 60_000

test(
  'the simulator, seed after seed',
  async () => {
    // Away from the seeds of `npm test`, and others each day; what fails says how to run it again.
    const firstSeed = 1_000_000 + 100_000 * Math.floor(Date.now() / 86_400_000)
    const untilMs = performance.now() + SECONDS * 1_000
    const { failures, count, tightest } = await runMany(firstSeed, () => performance.now() < untilMs)
    console.log(`seeds: ${count} of the simulator, from ${firstSeed}, ${failures.length} failed; ${tightest}`)
    expect(failures).toEqual([])
  },
  SECONDS * 1_000 + SLACK_MS,
)
