/** Requests generated from the description, by hand: `bun server/test/fuzz/run.ts --requests 20000 [--seed 1]`. */

import { parseArgs } from 'node:util'
import { installSchemathesis, openFuzzer } from './fuzz.ts'
import { createTally } from './tally.ts'

const { values } = parseArgs({
  options: { requests: { type: 'string', default: '20000' }, seed: { type: 'string', default: '1' } },
})
const wanted = Number(values.requests)
const EXAMPLES = 400

const installed = await installSchemathesis()
if ('problem' in installed) throw new Error(`schemathesis can't be installed: ${installed.problem}`)
const leaving = new AbortController()
for (const signal of ['SIGINT', 'SIGTERM']) process.once(signal, () => leaving.abort(new Error(`stopped by ${signal}`)))
const fuzzer = await openFuzzer(installed.bin)
const tally = createTally()
const startedMs = performance.now()
try {
  for (let seed = Number(values.seed); tally.requests() < wanted; seed += 1) {
    const round = await fuzzer.round({ seed, examples: EXAMPLES, signal: leaving.signal })
    tally.add(round)
    if (round.report !== '') console.log(round.report)
    const seconds = ((performance.now() - startedMs) / 1_000).toFixed(0)
    console.log(`${seconds} s: seed ${seed}, ${tally.requests()} requests, ${tally.findings()} findings`)
  }
} finally {
  await fuzzer.close()
}
for (const line of tally.lines()) console.log(line)
const starved = tally.starved()
if (starved.length > 0) console.log(`too few answered 2xx: ${starved.join(', ')}`)
console.log(`${tally.requests()} requests, ${tally.findings()} findings, ${tally.serverErrors()} answers of 5xx`)
process.exit(tally.findings() + tally.serverErrors() + starved.length === 0 ? 0 : 1)
