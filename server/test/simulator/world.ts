/**
 * The scheduler: machines, their clocks and mailboxes, and the statements they wait for. Nothing happens but by
 * {@link World.step}, which picks one of all that may happen next by the seed, and lets every process come to rest.
 */

import { type Seeded, seeded } from '../faults/seeded.ts'
import type { Engine, Soon } from './engine.ts'
import { Machine } from './machine.ts'
import { StatementError, UntaughtStatement } from './model/errors.ts'

/** The server ends a statement that has waited this long for a lock (`infra/postgres/client.ts`). */
const STATEMENT_TIMEOUT_MS = 30_000

/** How long, in real time, statements under way are waited for before the next step: those that wait for a lock stay. */
const CONCURRENT_PATIENCE_MS = 6

/** Where there is no trouble, time goes on by so much at most while something is on its way: it is not cut off by timeouts. */
const CALM_LEAP_MS = 1_000

/** The beginning of the labels of providers' letters. */
const PROVIDER = 'its provider'

/** A jump of the database's clock is followed once it has held for a minute. */
const HELD_MS = 60_000
/** A process is off by half a round trip, and steps of up to 2 s are followed one by one. */
export const FOLLOWED_WITHIN_MS = 2_600

/** That of a statement whose process is dead: much has happened since, mostly, when the server ends it. */
const LATE_WEIGHT = 0.1

/** Rounds of {@link World.catchUp}: far more than ever follow from each other without time going on. */
const ROUNDS_MOST = 10_000

/** The fate of a statement: it arrives, it never does, or its answer is lost. */
export type Fate = 'fine' | 'before' | 'after'

/** Something that a machine has asked of the database. */
export interface Asked {
  readonly machine: Machine
  readonly label: string
  readonly sinceMs: number
  readonly isBlocked: () => boolean
  readonly run: () => Soon<unknown>
  readonly settle: (answer: { readonly value: unknown } | { readonly error: unknown }) => void
  /** Called when its answer was lost, or it never ran. */
  readonly onBroken: () => void
}

/** One of the things that may happen next. */
export interface Candidate {
  readonly weight: number
  readonly happen: () => Soon<void>
}

/** Something is asked again and again, and no time passes. */
export class Endless extends Error {
  constructor() {
    super('what arrives at once leads to something new for ever')
    this.name = 'Endless'
  }
}

export class World {
  readonly random: Seeded
  readonly engine: Engine
  readonly startMs: number
  readonly machines: Machine[] = []
  readonly asked: Asked[] = []
  /** The sources of everything else that may happen: calls, faults, and other parts of a history. */
  readonly sources: (() => Candidate[])[] = []
  /** Decides what becomes of the next statement. */
  fate: () => Fate = () => 'fine'
  elapsedMs = 0
  steps = 0
  /** The time of trouble is over: what is on its way arrives within seconds. */
  isCalm = false
  /** Time does not leap past this before {@link catchUp} was called. */
  promptUntilMs: number | null = null
  /** How far the database's clock was set ahead of the true time, and when by the time of the world. */
  private readonly turns: { readonly atMs: number; readonly aheadMs: number }[] = [{ atMs: 0, aheadMs: 0 }]
  private readonly underWay = new Set<Promise<void>>()
  private readonly lines: string[] | null

  constructor(seed: number, engine: Engine, startMs: number, lines: string[] | null = null) {
    this.random = seeded(seed)
    this.engine = engine
    this.startMs = startMs
    this.lines = lines
  }

  /** The database's clock, milliseconds since the epoch. */
  get databaseMs(): number {
    return this.startMs + this.elapsedMs + this.databaseAheadMs
  }

  /** Returns how far the database's clock is ahead of the true time, in milliseconds. */
  private get databaseAheadMs(): number {
    return this.turns.at(-1)?.aheadMs ?? 0
  }

  /** Sets the database's clock so far ahead of the true time, or back to it. */
  turnDatabase(aheadMs: number): void {
    this.note(`THE DATABASE'S CLOCK IS TURNED ${aheadMs} ms AHEAD`)
    this.turns.push({ atMs: this.elapsedMs, aheadMs })
  }

  get isDatabaseTurned(): boolean {
    return this.databaseAheadMs !== 0
  }

  /** Returns whether the database's clock was ever turned. */
  get wasTurned(): boolean {
    return this.turns.length > 1
  }

  /** Returns how far a clock at `nowMs` is ahead of the true time, in milliseconds. */
  aheadOf(nowMs: number): number {
    return nowMs - this.startMs - this.elapsedMs
  }

  /** Returns whether the database's clock was so far ahead at some time, and stayed so for a minute. */
  hasHeld(aheadMs: number): boolean {
    return this.turns.some((turn, index) => {
      const heldMs = (this.turns[index + 1]?.atMs ?? this.elapsedMs) - turn.atMs
      return Math.abs(turn.aheadMs - aheadMs) <= FOLLOWED_WITHIN_MS && (index === 0 || heldMs >= HELD_MS)
    })
  }

  note(words: string): void {
    this.lines?.push(`${String(this.steps).padStart(5)} ${String(this.elapsedMs).padStart(7)} ms  ${words}`)
  }

  machine(name: string, skewMs: number): Machine {
    const made = new Machine(this, name, skewMs)
    this.machines.push(made)
    return made
  }

  /** Asks the database for something; it happens, and is answered, when the scheduler says so. */
  ask<T>(
    machine: Machine,
    label: string,
    run: () => Soon<T>,
    more: { readonly isBlocked?: () => boolean; readonly onBroken?: () => void } = {},
  ): Promise<T> {
    return new Promise((resolve, reject) => {
      this.asked.push({
        machine,
        label,
        sinceMs: this.elapsedMs,
        isBlocked: more.isBlocked ?? (() => false),
        onBroken: more.onBroken ?? (() => {}),
        run,
        settle: (answer) => {
          if ('error' in answer) reject(answer.error)
          else resolve(answer.value as T)
        },
      })
    })
  }

  /** One of all that may happen, and everything that follows from it within the processes. False: nothing may. */
  async step(): Promise<boolean> {
    this.steps += 1
    const candidates = this.candidates()
    const jump = this.nextJumpMs(candidates.length > 0)
    if (candidates.length === 0 && jump === null && this.underWay.size === 0) return false
    this.elapsedMs += this.random.pick([0, 0, 0, 1, 1, 2, 4])
    if (jump !== null) candidates.push({ weight: candidates.length === 0 ? 1 : 0.5, happen: () => this.jumpTo(jump) })
    const times = this.engine.isConcurrent ? this.random.between(1, 3) : 1
    for (let time = 0; time < times && candidates.length > 0; time += 1) {
      const [chosen] = candidates.splice(this.choose(candidates), 1)
      await chosen?.happen()
    }
    await this.rest()
    return true
  }

  /** Everything that is due happens at once, in the order in which it was asked, and then time goes on to the next timer. */
  async flow(untilMs: number): Promise<void> {
    await this.rest()
    for (let rounds = 0; ; rounds += 1) {
      this.steps += 1
      if (await this.happenAll(() => true)) {
        if (rounds > ROUNDS_MOST) throw new Endless()
        continue
      }
      rounds = 0
      const next = this.nextTimerMs()
      if (next === null || next > untilMs) break
      this.jumpTo(next)
    }
    this.elapsedMs = Math.max(this.elapsedMs, untilMs)
  }

  /**
   * Lets everything under way between processes and database arrive, in the order in which it was asked; providers
   * say nothing more.
   */
  async catchUp(): Promise<void> {
    this.note('EVERYTHING ARRIVES')
    for (let rounds = 0; await this.happenAll((label) => !label.startsWith(PROVIDER)); rounds += 1) {
      if (rounds > ROUNDS_MOST) throw new Endless()
    }
  }

  /** False when nothing could happen. */
  private async happenAll(isWanted: (label: string) => boolean): Promise<boolean> {
    const ready = [
      // Looked at again in its turn: one before it may have locked what it needs.
      ...this.asked
        .filter((each) => !each.isBlocked())
        .map((each) => () => (each.isBlocked() ? undefined : this.run(each))),
      ...this.machines.flatMap((machine) => machine.deliveries(isWanted).map((delivery) => delivery.happen)),
    ]
    const isBusy = ready.length > 0 || this.underWay.size > 0
    for (const happen of ready) await happen()
    await this.rest()
    return isBusy
  }

  /** Takes away a statement that was not carried out yet. False: it was carried out, or taken away, before. */
  abandon(asked: Asked): boolean {
    const index = this.asked.indexOf(asked)
    if (index < 0) return false
    this.asked.splice(index, 1)
    return true
  }

  /**
   * Carries out a statement and puts the answer into the machine's mailbox, as far as its fate lets it. Does nothing for one that
   * was abandoned or carried out before: its process may have died since it was chosen, in the same step.
   */
  run(asked: Asked, fate: Fate = this.fate()): Soon<void> {
    if (!this.abandon(asked)) return
    const { machine, label } = asked
    const isLate = this.elapsedMs - asked.sinceMs > STATEMENT_TIMEOUT_MS
    if (fate === 'before' || isLate) {
      this.note(`${machine.name}: ${label} never arrives`)
      machine.troubledAtMs = this.elapsedMs
      asked.onBroken()
      const error = isLate
        ? new StatementError('canceling statement due to statement timeout', '57014')
        : new StatementError('the connection was closed')
      return this.answer(asked, { error })
    }
    const finish = (answer: { readonly value: unknown } | { readonly error: unknown }) => {
      if (fate === 'fine' || 'error' in answer) return this.answer(asked, answer)
      this.note(`${machine.name}: the answer to ${label} is lost`)
      machine.troubledAtMs = this.elapsedMs
      asked.onBroken()
      return this.answer(asked, { error: new StatementError('the connection was closed, and nobody knows') })
    }
    this.note(`${machine.name}: ${label}`)
    const done = attempt(asked.run)
    if (!(done instanceof Promise)) return finish(done)
    const under: Promise<void> = done.then(finish).finally(() => this.underWay.delete(under))
    this.underWay.add(under)
  }

  private answer(asked: Asked, answer: { readonly value: unknown } | { readonly error: unknown }): void {
    const what =
      'error' in answer ? `fails: ${answer.error instanceof Error ? answer.error.message : ''}` : 'is answered'
    asked.machine.deliver(`${asked.label} ${what}`, () => {
      // It hears only now of what it has lost, and may wait until it tries again.
      if ('error' in answer) asked.machine.troubledAtMs = this.elapsedMs
      asked.settle(answer)
    })
  }

  private candidates(): Candidate[] {
    const found: Candidate[] = []
    for (const each of this.asked) {
      const weight = each.machine.isAlive ? 4 : LATE_WEIGHT
      if (!each.isBlocked()) found.push({ weight, happen: () => this.run(each) })
    }
    for (const machine of this.machines) found.push(...machine.deliveries())
    for (const source of this.sources) found.push(...source())
    return found
  }

  private choose(candidates: readonly Candidate[]): number {
    let sum = 0
    for (const { weight } of candidates) sum += weight
    let left = (this.random.between(0, 999_999) / 1_000_000) * sum
    for (const [index, { weight }] of candidates.entries()) {
      left -= weight
      if (left < 0) return index
    }
    return candidates.length - 1
  }

  private nextJumpMs(isSomethingOnItsWay: boolean): number | null {
    const next = this.nextTimerMs()
    const calmMs = this.isCalm && isSomethingOnItsWay && next !== null ? this.elapsedMs + CALM_LEAP_MS : null
    const due = [next, this.promptUntilMs, calmMs].filter((each) => each !== null)
    return due.length === 0 ? null : Math.min(...due)
  }

  private nextTimerMs(): number | null {
    let next: number | null = null
    for (const machine of this.machines) {
      const dueMs = machine.nextTimerMs()
      if (dueMs !== null && dueMs > this.elapsedMs && (next === null || dueMs < next)) next = dueMs
    }
    return next
  }

  private jumpTo(dueMs: number): void {
    this.note(`time goes on by ${dueMs - this.elapsedMs} ms`)
    this.elapsedMs = dueMs
  }

  /** Everything that follows without the outside world has happened then. */
  private async rest(): Promise<void> {
    await new Promise((resolve) => setImmediate(resolve))
    if (this.underWay.size === 0) return
    let timer: ReturnType<typeof setTimeout> | undefined
    const late = new Promise<void>((resolve) => {
      timer = setTimeout(resolve, CONCURRENT_PATIENCE_MS)
    })
    await Promise.race([Promise.all(this.underWay), late])
    clearTimeout(timer)
    await new Promise((resolve) => setImmediate(resolve))
  }
}

function attempt(run: () => Soon<unknown>): Soon<{ readonly value: unknown } | { readonly error: unknown }> {
  try {
    const value = run()
    if (!(value instanceof Promise)) return { value }
    return value.then(
      (settled: unknown) => ({ value: settled }),
      (error: unknown) => ({ error }),
    )
  } catch (error) {
    if (error instanceof UntaughtStatement) throw error
    return { error }
  }
}
