/**
 * The load driver, its own process: `bun load.ts '<plan as JSON>'` carries out one plan (plan.ts) and prints its
 * outcome as the last line of stdout.
 */
import { runClosed } from './loadClosed.ts'
import { runOpen } from './loadOpen.ts'
import { runStreams } from './loadStreams.ts'
import type { Plan } from './plan.ts'

const argument = process.argv[2]
if (argument === undefined) {
  console.error("usage: bun load.ts '<plan as JSON>' (run.ts starts it; plan.ts describes the plan)")
  process.exit(2)
}
const plan = JSON.parse(argument) as Plan
const outcome =
  plan.mode === 'closed' ? await runClosed(plan) : plan.mode === 'open' ? await runOpen(plan) : await runStreams(plan)
console.log(JSON.stringify(outcome))
process.exit(0)
