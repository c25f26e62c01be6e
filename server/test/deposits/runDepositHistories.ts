import { systemClock } from '../../src/infra/clock.ts'
import { createLog } from '../../src/infra/log.ts'
import { systemRandom } from '../../src/infra/random.ts'
import { TurnedClock } from '../clock.ts'
import { freshDatabase } from '../postgres.ts'
import { runDepositHistory } from './depositHistory.ts'

/**
 * Runs history after history, from a seed on, for as long as `goesOn` says: it is given how many there were, and how many failed.
 * `trace` is the last one's.
 */
export async function runDepositHistories(from: number, goesOn: (count: number, failures: number) => boolean) {
  const { database, drop } = await freshDatabase()
  const clock = new TurnedClock(systemClock.now())
  const machine = { database, clock, random: systemRandom(), log: createLog('fatal', { write: () => {} }) }
  const failures: string[] = []
  let trace: readonly string[] = []
  let count = 0
  try {
    for (; goesOn(count, failures.length); count += 1) {
      const seed = from + count
      const result = await runDepositHistory(seed, machine)
      trace = result.trace
      if (result.problems.length > 0) failures.push(`seed ${seed} fails: ${result.problems.join('; ')}`)
    }
  } finally {
    await drop()
  }
  return { count, failures, trace }
}
