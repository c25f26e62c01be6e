/** Runs rounds of kills with deposits by hand: `bun server/test/deposits/kills.ts --seeds 20 [--from 1]`. */

import { parseArgs } from 'node:util'
import { depositReplayOf, startDepositKillRunner } from './killRound.ts'

const { values } = parseArgs({
  options: { seeds: { type: 'string', default: '10' }, from: { type: 'string', default: '1' } },
})
const first = Number(values.from)
const runner = await startDepositKillRunner()
let failed = 0
try {
  for (let seed = first; seed < first + Number(values.seeds); seed += 1) {
    const startedMs = performance.now()
    const { problems, credits, kills } = await runner.run(seed)
    const seconds = ((performance.now() - startedMs) / 1_000).toFixed(1)
    console.log(`seed ${seed}: ${seconds} s; ${credits} credits and ${kills} kills so far`)
    if (problems.length === 0) continue
    failed += 1
    for (const problem of problems.slice(0, 20)) console.log(`  ${problem}`)
    console.log(`  again: ${depositReplayOf(seed)}`)
  }
} finally {
  await runner.close()
}
console.log(`seeds: ${values.seeds} of deposits with kills, from ${first}, ${failed} failed`)
process.exit(failed === 0 ? 0 : 1)
