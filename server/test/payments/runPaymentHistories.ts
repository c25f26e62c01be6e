import { systemClock } from '../../src/infra/clock.ts'
import { openClient } from '../../src/infra/postgres/client.ts'
import { freshDatabase } from '../postgres.ts'
import { runPaymentHistory } from './paymentHistory.ts'

/** For all that two processes have under way in a loose history. */
const CONNECTIONS = 16

/**
 * Runs history after history, from a seed on, for as long as `goesOn` says: it is given how many there were, and how many failed.
 * `trace` is the last one's.
 */
export async function runPaymentHistories(from: number, goesOn: (count: number, failures: number) => boolean) {
  const fresh = await freshDatabase()
  const options = { maxConnections: CONNECTIONS, clock: systemClock, applicationName: 'payment histories' }
  const database = openClient(fresh.url, options)
  const failures: string[] = []
  const tally = new Map<string, number>()
  let trace: readonly string[] = []
  let count = 0
  try {
    for (; goesOn(count, failures.length); count += 1) {
      const seed = from + count
      const result = await runPaymentHistory(seed, database)
      trace = result.trace
      for (const [what, times] of result.tally) tally.set(what, (tally.get(what) ?? 0) + times)
      if (result.problems.length > 0) failures.push(`seed ${seed} fails: ${result.problems.join('; ')}`)
    }
  } finally {
    await database.close()
    await fresh.drop()
  }
  return { count, failures, tally, trace }
}
