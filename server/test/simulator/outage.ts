import type { SqlParameter } from '../../src/infra/postgres/database.ts'
import type { Machine } from './machine.ts'
import { StatementError } from './model/errors.ts'
import type { World } from './world.ts'

const START = /pg_postmaster_start_time/
const CLOCK = /^select clock_timestamp\(\) as now$/
const NOTIFY = /pg_notify\(\$1, \$2\)/

/** Returns whether a statement is about the server and not about its data. */
export function isAboutServer(text: string): boolean {
  return START.test(text) || CLOCK.test(text) || NOTIFY.test(text)
}

/** The database server as a whole: whether it runs, since when, and what it does beside the books. */
export class Outage {
  isDown = false
  /** By the world's clock, milliseconds since the epoch. */
  startedAtMs: number
  private readonly world: World
  /** The machines that listen for reclaims and for changes of accounts, and their callbacks by channel. */
  readonly listeners = new Map<
    Machine,
    { hear: Readonly<Record<string, (organizationId: string) => void>>; missed(): void }
  >()

  constructor(world: World) {
    this.world = world
    // Long ago: who is not there is dead.
    this.startedAtMs = world.startMs - 3_600_000
  }

  throwIfDown(): void {
    if (this.isDown) throw new StatementError('the database system is starting up', '57P03')
  }

  /** Statements that are about the server and not about its data. */
  answer(text: string, parameters: readonly SqlParameter[]): unknown[] | null {
    if (START.test(text)) return [{ since: new Date(this.startedAtMs) }]
    if (CLOCK.test(text)) return [{ now: new Date(this.world.databaseMs) }]
    if (!NOTIFY.test(text)) return null
    const [channel = '', organizationId = ''] = parameters.map(String)
    for (const [machine, { hear }] of this.listeners) {
      const listener = hear[channel]
      if (listener === undefined) throw new Error(`nobody in the simulator listens on ${channel}`)
      machine.deliver(channel, () => listener(organizationId))
    }
    return []
  }

  /** Every connection is closed, and with them all locks and open transactions. */
  goDown(): void {
    this.world.note('THE DATABASE GOES DOWN')
    this.isDown = true
    for (const machine of this.world.machines) {
      machine.troubledAtMs = this.world.elapsedMs
      for (const transaction of machine.transactions) this.endTransaction(machine, transaction)
      for (const session of machine.sessions) this.cut(machine, session)
    }
  }

  comeUp(): void {
    this.world.note('the database is up again')
    this.isDown = false
    this.startedAtMs = this.world.databaseMs
    for (const machine of this.world.machines) machine.troubledAtMs = this.world.elapsedMs
    for (const [machine, { missed }] of this.listeners) machine.deliver('it may have missed reclaims', missed)
  }

  endTransaction(machine: Machine, transaction: Machine['transactions'] extends Set<infer T> ? T : never): void {
    transaction.isOver = true
    machine.transactions.delete(transaction)
    void transaction.server.rollback()
  }

  /** Ends a pinned connection on the server's side; the process hears of it in its own time. */
  cut(machine: Machine, session: Machine['sessions'] extends Set<infer T> ? T : never): void {
    session.isGone = true
    machine.hasLostSession = true
    machine.troubledAtMs = this.world.elapsedMs
    machine.sessions.delete(session)
    void session.server.close()
    machine.deliver('the connection of its lock is closed', session.lose)
  }

  /** The network swallows what a pinned connection sends: the process gives it up, the server keeps it, and its locks. */
  silence(machine: Machine, session: Machine['sessions'] extends Set<infer T> ? T : never): void {
    session.isSilent = true
    session.silentSinceMs = this.world.elapsedMs
    machine.hasLostSession = true
    machine.troubledAtMs = this.world.elapsedMs
    this.world.note(`${machine.name}: the connection of its lock falls silent`)
    machine.deliver('the connection of its lock is silent', session.lose)
  }

  /** The server closes a connection that has been silent for a minute. */
  endSilentSessions(): void {
    for (const machine of this.world.machines) {
      for (const session of machine.sessions) {
        if (!session.isSilent || this.world.elapsedMs - session.silentSinceMs <= 60_000) continue
        session.isGone = true
        machine.sessions.delete(session)
        void session.server.close()
      }
    }
  }

  /** The server ends a transaction that has said nothing for a minute: its process is stopped. */
  endIdleTransactions(): void {
    for (const machine of this.world.machines) {
      for (const transaction of machine.transactions) {
        if (this.world.elapsedMs - transaction.usedAtMs > 60_000) this.endTransaction(machine, transaction)
      }
    }
  }
}
