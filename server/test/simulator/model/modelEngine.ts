import type { SqlParameter } from '../../../src/infra/postgres/database.ts'
import type { InstanceRow } from '../../../src/instances/job/row.ts'
import type { Engine, EngineSession, EngineTransaction, RentedRow, Snapshot } from '../engine.ts'
import { Books } from './books.ts'
import { StatementError } from './errors.ts'
import { statementOf } from './statements.ts'
import { View } from './tables.ts'
import { Parameters } from './wire.ts'

const ADVISORY = /pg_try_advisory_xact_lock/
const SHARED = /pg_try_advisory_xact_lock_shared/

/**
 * A serializable database of the books, in memory. Whole statements run one after the other; a transaction keeps what it
 * locked until it ends, and who needs that too waits outside ({@link isBlocked}).
 */
export class ModelEngine implements Engine {
  readonly isConcurrent = false
  version = 0
  private readonly books = new Books()
  private readonly advisoryLocks = new Map<string, object>()
  /** The transactions that share an advisory lock. */
  private readonly sharedLocks = new Map<string, Set<object>>()
  private readonly rowLocks = new Map<string, object>()

  query(text: string, parameters: readonly SqlParameter[]): unknown[] {
    const view = new View()
    const rows = statementOf(text).run(view, this.books, new Parameters(parameters), text)
    this.commit(view)
    return rows
  }

  begin(): EngineTransaction {
    const view = new View()
    let over = false
    const transaction: EngineTransaction = {
      query: (text, parameters) => {
        if (over) throw new StatementError('the transaction is over', '25P02')
        const values = new Parameters(parameters)
        if (ADVISORY.test(text)) {
          const name = lockName(values.number(1), values.number(2))
          return [{ done: SHARED.test(text) ? this.share(name, transaction) : this.lock(name, transaction) }]
        }
        const statement = statementOf(text)
        for (const name of statement.locks?.(values) ?? []) this.rowLocks.set(name, transaction)
        return statement.run(view, this.books, values, text)
      },
      commit: () => {
        if (over) throw new StatementError('the transaction is over', '25P02')
        over = true
        this.commit(view)
        this.free(transaction)
      },
      rollback: () => {
        over = true
        this.free(transaction)
      },
    }
    return transaction
  }

  openSession(): EngineSession {
    const session: EngineSession = {
      query: (text, parameters) => this.query(text, parameters),
      tryLock: (lockClass, id) => this.lock(lockName(lockClass, id), session),
      close: () => this.free(session),
    }
    return session
  }

  blocker(text: string, parameters: readonly SqlParameter[], transaction: EngineTransaction | null): () => boolean {
    let names: string[] | null = null
    return () => {
      if (this.rowLocks.size === 0 || ADVISORY.test(text)) return false
      names ??= statementOf(text).locks?.(new Parameters(parameters)) ?? []
      return names.some((name) => (this.rowLocks.get(name) ?? transaction) !== transaction)
    }
  }

  snapshot(): Snapshot {
    const { books } = this
    return {
      accounts: [...books.accounts.rows.values()],
      shares: [...books.shares.rows.values()],
      unfoldedSpend: [...books.unfoldedSpend.rows.values()],
      entries: [...books.entries.rows.values()],
      charges: [...books.charges.rows.values()],
      holds: [...books.holds.rows.values()],
      instances: [...books.instances.rows.values()].map(rentedOf),
      deadKeyIds: [...books.dead.rows.values()].map(({ keyId }) => keyId),
    }
  }

  private commit(view: View): void {
    if (view.commit()) this.version += 1
  }

  private lock(name: string, owner: object): boolean {
    if ((this.advisoryLocks.get(name) ?? owner) !== owner || this.sharedLocks.has(name)) return false
    this.advisoryLocks.set(name, owner)
    return true
  }

  private share(name: string, owner: object): boolean {
    if (this.advisoryLocks.has(name)) return false
    this.sharedLocks.set(name, (this.sharedLocks.get(name) ?? new Set()).add(owner))
    return true
  }

  private free(owner: object): void {
    for (const locks of [this.advisoryLocks, this.rowLocks]) {
      for (const [name, has] of locks) if (has === owner) locks.delete(name)
    }
    for (const [name, owners] of this.sharedLocks) {
      owners.delete(owner)
      if (owners.size === 0) this.sharedLocks.delete(name)
    }
  }
}

function rentedOf(row: InstanceRow): RentedRow {
  return {
    id: row.id,
    organizationId: row.organization_id,
    keyId: row.principal_id,
    hourMicrocents: row.hour_microcents,
    isLive: row.state === 'creating' || row.state === 'running',
    settledSecond: Number(row.settled_second),
    heldSecond: Number(row.held_second),
  }
}

function lockName(lockClass: number, id: number): string {
  return `${lockClass}/${id}`
}
