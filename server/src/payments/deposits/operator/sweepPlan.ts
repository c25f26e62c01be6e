import type { DepositChain } from '../../../catalog/depositChain.ts'
import type { Queryable } from '../../../infra/postgres/database.ts'
import { ChainFailure, type ChainReader } from '../chains/chain.ts'
import { printUnits, type ShowAddress } from '../deposit/deposit.ts'
import { selectPlaces, type TokenPlace } from './store.ts'

/** Places that one statement reads. */
const PLACES_AT_ONCE = 500

/** A chain whose nodes fail so often in a row is not asked any more. */
const FAILURES_IN_ROW_MOST = 3

/** Of failures that the plan tells of. */
const TOLD_MOST = 20

export const SWEEP_COLUMNS = [
  'chain',
  'asset',
  'token',
  'address',
  'path',
  'key_fingerprint',
  'units',
  'amount',
] as const

export type SweepRow = Readonly<Record<(typeof SWEEP_COLUMNS)[number], string>>

export interface SweepPlan {
  readonly rows: readonly SweepRow[]
  /** Places of tokens that are taken and whose balance could not be read: the plan lacks them. */
  readonly missing: number
  /** Why, in our words; some of them. */
  readonly failures: readonly string[]
}

type BalanceReader = Pick<ChainReader, 'balanceOf'>

/**
 * Returns what lies now at each address that tokens have ever come to, as the chain says; places where nothing is left are not
 * among it. `path` and `key_fingerprint` are empty of addresses of the pool. `amount` is empty of tokens that are not taken, and so
 * is `units` where their contract, which may be anybody's, does not tell.
 */
export async function planSweep(
  db: Queryable,
  readers: ReadonlyMap<DepositChain, BalanceReader>,
  shown: ShowAddress,
): Promise<SweepPlan> {
  const rows: SweepRow[] = []
  const failures = new Set<string>()
  const inRow = new Map<DepositChain, number>()
  let missing = 0
  let after = { address: '', token: '' }
  while (true) {
    const places = await selectPlaces(db, after, PLACES_AT_ONCE)
    for (const place of places) {
      const isGivenUp = (inRow.get(place.chain) ?? 0) >= FAILURES_IN_ROW_MOST
      const units = isGivenUp ? null : await balanceAt(place, readers.get(place.chain))
      if (typeof units === 'bigint') {
        inRow.delete(place.chain)
        if (units > 0n) rows.push(toRow(place, units, shown))
        continue
      }
      // A contract may refuse, or tell each node something else: then the chain is there.
      if (units?.trouble === 'away') inRow.set(place.chain, (inRow.get(place.chain) ?? 0) + 1)
      if (place.asset === null) rows.push(toRow(place, null, shown))
      else {
        missing += 1
        if (units !== null && failures.size < TOLD_MOST) failures.add(units.message)
      }
    }
    const last = places.at(-1)
    if (last === undefined || places.length < PLACES_AT_ONCE) return { rows, missing, failures: [...failures] }
    after = last
  }
}

async function balanceAt(place: TokenPlace, reader: BalanceReader | undefined): Promise<bigint | ChainFailure> {
  if (reader === undefined) return new ChainFailure('away', `the settings have no node of ${place.chain}`)
  try {
    return await reader.balanceOf(place.token, place.address)
  } catch (error) {
    if (error instanceof ChainFailure) return error
    throw error
  }
}

function toRow(place: TokenPlace, units: bigint | null, shown: ShowAddress): SweepRow {
  return {
    chain: place.chain,
    asset: place.asset ?? '',
    token: place.token,
    address: shown(place.chain, place.address),
    path: place.addressIndex === null ? '' : `m/0/${place.addressIndex}`,
    key_fingerprint: place.keyFingerprint ?? '',
    units: units?.toString() ?? '',
    amount: place.asset === null || units === null ? '' : printUnits(units),
  }
}
