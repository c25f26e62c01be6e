/** Part of `app.ts`: the money that calls share, and the writer of its charges. */

import type { Catalog } from '../catalog/model.ts'
import type { Metrics } from '../io/metrics.ts'
import { isPartitionMissing, sqlStateOf } from '../io/postgres/client.ts'
import type { Database } from '../io/postgres/database.ts'
import type { RandomBytes } from '../kernel/ids.ts'
import type { Log } from '../kernel/log.ts'
import type { Clock } from '../kernel/time.ts'
import { createLimitNoter } from '../money/accounts/noteLimit.ts'
import { type OpenMoney, openMoney } from '../money/openMoney.ts'
import { createRecaller } from '../money/recaller.ts'
import type { Slot } from '../money/slot.ts'
import type { Wallet } from '../money/wallet.ts'
import { Writer } from '../money/writer.ts'

/** SQLSTATE classes that say the data itself is refused: data exceptions and integrity violations. */
const REFUSED_DATA = /^(22|23)/

interface MoneyParts {
  readonly database: Database
  readonly slot: Slot
  readonly clock: Clock
  readonly random: RandomBytes
  readonly log: Log
  readonly metrics: Metrics
  readonly catalog: () => Catalog
  readonly lowBalanceMicrocents: bigint
  /** A charge, or a limit, has brought about something that somebody must be told. */
  readonly onNoticed: () => void
}

export function wireMoney(parts: MoneyParts): { readonly writer: Writer; readonly money: OpenMoney } {
  const { database, slot, clock, random, log, metrics, catalog, lowBalanceMicrocents, onNoticed } = parts
  const writer = new Writer({
    database,
    slot: slot.number,
    takenAtMs: slot.takenAtMs,
    clock,
    log,
    errors: { isRefusedData: (error) => REFUSED_DATA.test(sqlStateOf(error) ?? '') && !isPartitionMissing(error) },
    onPosted: metrics.posted,
    onBuried: metrics.buried,
    lowBalanceMicrocents,
    onNoticed,
  })
  const money = openMoney({
    clock,
    random,
    writer,
    ownsSlot: () => slot.isOwned(),
    sendRecall: createRecaller({ database, slot, clock, log }),
    onUnreadable: metrics.unreadable,
    onLimitReached: createLimitNoter({ database, clock, log, onNoticed }),
    plans: { offered: () => catalog().plans, onUnreadable: metrics.planUnreadable },
  })
  return { writer, money }
}

/** Of all wallets. Only for metrics: as a number it may be off by a trifle. */
export function sumOf({ wallets }: OpenMoney, amount: (wallet: Wallet) => bigint): number {
  let sum = 0n
  for (const wallet of wallets.values()) sum += amount(wallet)
  return Number(sum)
}
