/**
 * `bun server/test/simulator/run.ts --seed N` runs a seed again and prints its trace; `--seeds N --from M` runs many and prints
 * what fails; with `--every K` every K-th seed. With `--until-failure 1` the first failure is the last, with `--postgres 1` the
 * histories run on a throw-away PostgreSQL. At the end stand the largest overspend of all histories and its bound.
 */

import { freshDatabase } from '../postgres.ts'
import { History } from './history.ts'
import { ModelEngine } from './model/modelEngine.ts'
import { PostgresEngine } from './postgresEngine.ts'
import { runMany } from './runMany.ts'

function numberOf(name: string): number | null {
  const index = process.argv.indexOf(`--${name}`)
  if (index < 0) return null
  const value = Number(process.argv[index + 1])
  if (!Number.isInteger(value)) throw new Error(`--${name} takes a whole number`)
  return value
}

const single = numberOf('seed')
const seeds = numberOf('seeds') ?? 1
const from = numberOf('from') ?? 1
/** Seeds of one kind of trouble are as far apart as there are kinds. */
const every = numberOf('every') ?? 1
const stops = numberOf('until-failure') !== null
const fresh = numberOf('postgres') === null ? null : await freshDatabase()
const postgres = fresh === null ? null : new PostgresEngine(fresh.url)

const engineOf = async () => {
  await postgres?.reset()
  return postgres ?? new ModelEngine()
}
let failed = 0
if (single === null) {
  const goesOn = (count: number, failures: number) => count < seeds && !(stops && failures > 0)
  const { count, steps, failures, tightest } = await runMany(from, goesOn, every, engineOf)
  for (const failure of failures) console.log(failure)
  failed = failures.length
  console.log(`seeds: ${count} of the simulator from ${from}, ${steps} steps, ${failed} failed; ${tightest}`)
} else {
  const { trace, bound, answers, problems } = await new History(single, await engineOf(), true).run()
  for (const line of trace) console.log(line)
  for (const { words } of bound) console.log(words)
  for (const [answer, times] of answers) console.log(`${times} calls: ${answer}`)
  failed = problems.length
  console.log(`seed ${single} ${failed === 0 ? 'passes' : `fails: ${problems.join('; ')}`}`)
}
await postgres?.close()
await fresh?.drop()
process.exit(failed === 0 ? 0 : 1)
