import type { Clock } from '../../src/lib/time.ts'
import type { EngineSession, EngineTransaction } from './engine.ts'
import type { Candidate, World } from './world.ts'

interface Timer {
  readonly dueMs: number
  readonly callback: () => void
}

interface Letter {
  readonly label: string
  readonly open: () => void
}

/** A connection of a machine that holds locks: its own side, and the server's. */
export interface HeldSession {
  readonly server: EngineSession
  isGone: boolean
  /** Nothing comes back to the process, and the server keeps its locks: it has not noticed. */
  isSilent: boolean
  /** Since when, as the world's clock shows. */
  silentSinceMs: number
  /** The locks that it was given, by their ids. */
  readonly locked: Set<number>
  /** Tells the process that it is gone. */
  readonly lose: () => void
}

/** An open transaction of a machine. */
export interface HeldTransaction {
  readonly server: EngineTransaction
  isOver: boolean
  usedAtMs: number
}

/**
 * The machine of one process: its clock, the letters that have arrived, and its connections. Killed, it is never
 * heard of again.
 */
export class Machine {
  readonly name: string
  readonly clock: Clock
  isAlive = true
  isPaused = false
  /** How far its wall clock was set ahead. */
  wallAheadMs = 0
  /** True when a connection that may have held its lock was ever cut. */
  hasLostSession = false
  /** When it was last stopped, or lost a statement or a connection: until then it may have missed something. */
  troubledAtMs = Number.NEGATIVE_INFINITY
  readonly sessions = new Set<HeldSession>()
  readonly transactions = new Set<HeldTransaction>()
  private readonly world: World
  private readonly timers = new Set<Timer>()
  private readonly letters: Letter[] = []

  constructor(world: World, name: string, skewMs: number) {
    this.world = world
    this.name = name
    this.clock = {
      now: () => world.startMs + world.elapsedMs + skewMs + this.wallAheadMs,
      monotonicMs: () => world.elapsedMs,
      after: (delayMs, callback) => {
        const timer = { dueMs: world.elapsedMs + Math.max(delayMs, 0), callback }
        this.timers.add(timer)
        return () => this.timers.delete(timer)
      },
    }
  }

  get runs(): boolean {
    return this.isAlive && !this.isPaused
  }

  /** Puts something into its mailbox; it is taken out when the scheduler says so. */
  deliver(label: string, open: () => void): void {
    if (this.isAlive) this.letters.push({ label, open })
  }

  /**
   * Returns the deliveries that may reach the process next: letters in any order, and timers that are due, the
   * earliest first.
   */
  deliveries(isWanted: (label: string) => boolean = () => true): Candidate[] {
    if (!this.runs) return []
    const found: Candidate[] = this.letters
      .filter(({ label }) => isWanted(label))
      .map((letter) => ({ weight: 4, happen: () => this.take(letter) }))
    const timer = this.earliest()
    if (timer !== null && timer.dueMs <= this.world.elapsedMs) found.push({ weight: 6, happen: () => this.fire(timer) })
    return found
  }

  nextTimerMs(): number | null {
    return this.runs ? (this.earliest()?.dueMs ?? null) : null
  }

  /** The end of the process: nothing that it waited for ever comes. Its connections are the world's to end. */
  die(): void {
    this.isAlive = false
    this.timers.clear()
    this.letters.length = 0
  }

  private take(letter: Letter): void {
    const index = this.letters.indexOf(letter)
    if (index < 0) return
    this.letters.splice(index, 1)
    this.world.note(`${this.name} hears: ${letter.label}`)
    letter.open()
  }

  private fire(timer: Timer): void {
    if (!this.timers.delete(timer)) return
    this.world.note(`${this.name}: a timer is due`)
    timer.callback()
  }

  private earliest(): Timer | null {
    let next: Timer | null = null
    for (const timer of this.timers) if (next === null || timer.dueMs < next.dueMs) next = timer
    return next
  }
}
