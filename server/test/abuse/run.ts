/**
 * Carries out attacks and prints what they did: `npx bun server/test/abuse/run.ts [--seconds 10] [--rounds 1] [--who] [NAME…]`.
 * With rounds, the middle one's ratio is told last: on a machine that others share, one round's largest figures are theirs.
 * `--who` tells which functions held the event loop for over 20 ms. A NAME is a file of `attacks/` without its ending; without
 * one all of them are carried out. Needs nothing but the checkout: it starts its own PostgreSQL.
 */

import { parseArgs } from 'node:util'
import { type Harness, type Outcome, openHarness } from './harness.ts'
import { attackNames } from './loadAttacks.ts'

const SECONDS_PRESET = '10'

const LONGEST_SHOWN = 5

/** How many times as long as beside a server that discards the slowest hundredth of the other customer's answers took. */
function ratioOf({ tenant, tenantBesideDiscard }: Outcome): number {
  return tenant.latencies.p99 / tenantBesideDiscard.latencies.p99
}

function print(whole: Outcome): void {
  const { attack, held, tenant, tenantBesideDiscard, ...outcome } = whole
  const [here, there] = [tenant.latencies, tenantBesideDiscard.latencies]
  const counts = (byStatus: ReadonlyMap<number, number>) =>
    [...byStatus]
      .sort(([a], [b]) => a - b)
      .map(([status, count]) => `${status}: ${count}`)
      .join(', ') || 'none'
  console.log(`\n${attack.name}: ${attack.about}`)
  console.log(
    `  memory over idle: ${outcome.megabytesOverIdle.toFixed(0)} MB at most, ${outcome.megabytesLeft.toFixed(0)} MB afterwards`,
  )
  console.log(
    `  the other customer: p50 ${here.p50.toFixed(1)} ms, p99 ${here.p99.toFixed(1)} ms, at most ${here.max.toFixed(0)} ms; ` +
      `beside a server that discards: p99 ${there.p99.toFixed(1)} ms (${ratioOf(whole).toFixed(1)} times), at most ${there.max.toFixed(0)} ms`,
  )
  console.log(`  its answers: ${counts(tenant.byStatus)}; the attacker's: ${counts(outcome.byStatus)}`)
  console.log(`  the attacker's of the server that discards: ${counts(outcome.byStatusAtDiscard)}`)
  const longest = [...held].sort((a, b) => b.milliseconds - a.milliseconds)
  for (const { milliseconds, lateMilliseconds, functions } of longest.slice(0, LONGEST_SHOWN)) {
    console.log(
      `  event loop held for ${milliseconds} ms of work (of ${lateMilliseconds} ms): ${functions.join(', ') || 'nothing of ours ran'}`,
    )
  }
  console.log(
    `  database: ${outcome.rowsAdded} rows and ${outcome.databaseMegabytesAdded.toFixed(1)} MB more; ` +
      `files: ${outcome.fileMegabytesAdded.toFixed(1)} MB more`,
  )
}

const { values, positionals } = parseArgs({
  options: {
    seconds: { type: 'string', default: SECONDS_PRESET },
    rounds: { type: 'string', default: '1' },
    who: { type: 'boolean', default: false },
  },
  allowPositionals: true,
})
const rounds = Number(values.rounds)
if (!(Number.isInteger(rounds) && rounds > 0)) throw new Error('--rounds takes a whole number, such as 5')
const harness: Harness = await openHarness({ isWatched: values.who })
try {
  console.log(`idle: ${harness.idleMegabytes.toFixed(0)} MB`)
  for (const name of positionals.length > 0 ? positionals : attackNames()) {
    const ratios: number[] = []
    for (let round = 0; round < rounds; round += 1) {
      const outcome = await harness.attack(name, Number(values.seconds))
      print(outcome)
      ratios.push(ratioOf(outcome))
    }
    ratios.sort((a, b) => a - b)
    const all = ratios.map((ratio) => ratio.toFixed(1)).join(', ')
    if (rounds > 1) console.log(`${name}, all rounds: ${all}; the middle one ${ratios[rounds >> 1]?.toFixed(1)} times`)
  }
} finally {
  await harness.close()
}
