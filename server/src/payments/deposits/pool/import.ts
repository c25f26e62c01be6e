import type { DepositChain } from '../../../catalog/depositChain.ts'
import type { Database } from '../../../infra/postgres/database.ts'
import { type RandomBytes, randomNumber31 } from '../../../lib/ids.ts'
import { mapAtMost } from '../../../lib/mapAtMost.ts'
import type { Clock } from '../../../lib/time.ts'
import type { HasHistory } from './offer.ts'
import { type FaultOf, firstProblems, readPoolFile } from './parse.ts'
import { countFree, insertAddresses, retireAddresses, selectKnownAddresses } from './store.ts'

/** Of one file: each is asked for at the nodes. */
const IMPORTED_MOST = 10_000
/** Free addresses of a chain. */
const FREE_MOST = 100_000
/** Addresses that are asked for at once. */
const ASKED_AT_ONCE = 4

export interface ImportDependencies {
  readonly database: Database
  readonly clock: Clock
  readonly random: RandomBytes
  readonly faultOf: FaultOf
  readonly hasHistory: HasHistory
}

export type PoolImport =
  | {
      readonly ok: true
      readonly imported: number
      /** They have a history on the chain, and are not in the pool. */
      readonly skipped: readonly string[]
      /** They were free before, and are not any more. */
      readonly retired: number
      readonly free: number
    }
  /** Nothing was imported. */
  | { readonly ok: false; readonly problems: readonly string[] }

/**
 * Imports the addresses of a file into the pool of a chain, all or none of them, but for those with a history on the chain. With
 * `replaces` the addresses that were free before are retired. Throws `ChainFailure` where the nodes can't tell of a history.
 */
export async function importAddresses(
  { database, clock, random, faultOf, hasHistory }: ImportDependencies,
  chain: DepositChain,
  file: { readonly text: string; readonly replaces: boolean },
): Promise<PoolImport> {
  const { lines, problems } = readPoolFile(file.text, faultOf)
  if (problems.length > 0) return { ok: false, problems }
  if (lines.length > IMPORTED_MOST) return refusedFor(`the file has more than ${IMPORTED_MOST} addresses: split it`)
  const addresses = lines.map(({ address }) => address)
  const known = await selectKnownAddresses(database, addresses)
  const repeated = lines.filter(({ address }) => known.has(address))
  if (repeated.length > 0)
    return refusedFor(...repeated.map(({ line }) => `line ${line} has an address that was imported before: remove it`))
  const histories = await mapAtMost(addresses, ASKED_AT_ONCE, hasHistory)
  const fresh = addresses.filter((_, index) => histories[index] === false)
  const skipped = addresses.filter((_, index) => histories[index] === true)
  return database
    .transaction(async (tx) => {
      const retired = file.replaces ? await retireAddresses(tx, chain) : 0
      if ((await countFree(tx, chain)) + fresh.length > FREE_MOST)
        throw new PoolFull(`the pool would have more than ${FREE_MOST} free addresses: import fewer`)
      const draws = fresh.map(() => randomNumber31(random))
      const imported = await insertAddresses(tx, chain, fresh, draws, clock.now())
      if (imported < fresh.length) throw new PoolFull('another import has brought some of these addresses: try again')
      return { ok: true, imported, skipped, retired, free: await countFree(tx, chain) } as const
    })
    .catch((error: unknown) => {
      if (error instanceof PoolFull) return refusedFor(error.message)
      throw error
    })
}

/** Rolls an import back. */
class PoolFull extends Error {}

function refusedFor(...problems: readonly string[]): PoolImport {
  return { ok: false, problems: firstProblems(problems) }
}
