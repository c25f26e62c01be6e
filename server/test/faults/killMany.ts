/**
 * Runs many seeds of the kill test by hand: `bun server/test/faults/killMany.ts --seeds 500 [--from 1] [--crowd 10000]`. With
 * `--crowd`, so many other organizations have called just before each death.
 */

import { parseArgs } from 'node:util'
import { replayOf, startKillRunner } from './killRun.ts'

const { values } = parseArgs({
  options: {
    seeds: { type: 'string', default: '10' },
    from: { type: 'string', default: '1' },
    crowd: { type: 'string', default: '0' },
  },
})
const first = Number(values.from)
const start = () => startKillRunner({ crowdSize: Number(values.crowd) })
/** Each seed adds a charge of each of the crowd, and looks through all of the books: so the books are begun anew now and then. */
const SEEDS_OF_BOOKS = 20
let runner = await start()
let failed = 0
let answers = 0
let cutShort = 0
let late = 0
for (let seed = first; seed < first + Number(values.seeds); seed += 1) {
  if (seed > first && (seed - first) % SEEDS_OF_BOOKS === 0) {
    await runner.close()
    runner = await start()
  }
  const result = await runner.run(seed)
  answers += result.whole
  cutShort += result.cutShort
  if (!result.struck) late += 1
  console.log(
    `seed ${seed}: ${JSON.stringify(result.fault)}, ${result.whole} whole answers, ${result.cutShort} cut short, ` +
      `${result.charges} charges${result.struck ? '' : '; the fault came after the last call'}`,
  )
  if (result.problems.length === 0) continue
  failed += 1
  for (const problem of result.problems.slice(0, 20)) console.log(`  ${problem}`)
  console.log(`  again: ${replayOf(seed)} --crowd ${values.crowd}`)
}
await runner.close()
console.log(
  `${values.seeds} seeds, ${failed} failed; ${answers} whole answers, ${cutShort} cut short; ${late} faults came late`,
)
process.exit(failed === 0 ? 0 : 1)
