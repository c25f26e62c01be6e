/**
 * `bun server/test/deposits/run.ts --seed N` runs a history again and prints what happened; `--seeds N --from M` runs many and
 * prints those that fail; with `--until-failure 1` the first failure is the last.
 */

import { runDepositHistories } from './runDepositHistories.ts'

function numberOf(name: string): number | null {
  const index = process.argv.indexOf(`--${name}`)
  if (index < 0) return null
  const value = Number(process.argv[index + 1])
  if (!Number.isInteger(value)) throw new Error(`--${name} takes a whole number`)
  return value
}

const single = numberOf('seed')
const from = single ?? numberOf('from') ?? 1
const seeds = single === null ? (numberOf('seeds') ?? 1) : 1
const stops = numberOf('until-failure') !== null
const goesOn = (count: number, failures: number) => count < seeds && !(stops && failures > 0)
const { count, failures, trace } = await runDepositHistories(from, goesOn)
if (single !== null) console.log(trace.join('\n'))
for (const failure of failures) console.log(failure)
console.log(`seeds: ${count} of deposits from ${from}, ${failures.length} failed`)
process.exit(failures.length === 0 ? 0 : 1)
