/** The engine behind the simulated processes' statements: the model, or a real PostgreSQL. */

import type { SqlParameter } from '../../src/infra/postgres/database.ts'
import type { AccountRow, ChargeRow, EntryRow, HoldRow, ShareRow, UnfoldedSpendRow } from './model/books.ts'

/** At once from the model; from a server when it answers. */
export type Soon<T> = T | Promise<T>

/** An open transaction. It ends by the first of commit and rollback; a second one does nothing. */
export interface EngineTransaction {
  query(text: string, parameters: readonly SqlParameter[]): Soon<unknown[]>
  commit(): Soon<void>
  rollback(): Soon<void>
}

/** A pinned connection for advisory locks, which are gone when it is closed. */
export interface EngineSession {
  query(text: string, parameters: readonly SqlParameter[]): Soon<unknown[]>
  tryLock(lockClass: number, id: number): Soon<boolean>
  close(): Soon<void>
}

/** An instance, as far as it is looked at here. */
export interface RentedRow {
  readonly id: string
  readonly organizationId: string
  /** Its charges are those of this key. */
  readonly keyId: string
  readonly hourMicrocents: bigint
  readonly isLive: boolean
  readonly settledSecond: number
  readonly heldSecond: number
}

/** The committed state of the books at one instant. */
export interface Snapshot {
  readonly accounts: readonly AccountRow[]
  readonly shares: readonly ShareRow[]
  readonly unfoldedSpend: readonly UnfoldedSpendRow[]
  readonly entries: readonly EntryRow[]
  readonly charges: readonly ChargeRow[]
  readonly holds: readonly HoldRow[]
  readonly instances: readonly RentedRow[]
  /** Of dead charges. */
  readonly deadKeyIds: readonly string[]
}

export interface Engine {
  /** True when several statements may be under way at once, in an order that nobody decides. */
  readonly isConcurrent: boolean
  /** Counts commits that wrote something; a snapshot of the same count is the same. */
  readonly version: number
  query(text: string, parameters: readonly SqlParameter[]): Soon<unknown[]>
  begin(): Soon<EngineTransaction>
  openSession(): Soon<EngineSession>
  /** Tells whether a statement would have to wait for another transaction. Never where the engine itself lets it wait. */
  blocker(text: string, parameters: readonly SqlParameter[], transaction: EngineTransaction | null): () => boolean
  snapshot(): Soon<Snapshot>
}
