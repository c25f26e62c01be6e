/** A clock and an order of statements, for tests against a real database whose outcome must not depend on how fast that is. */

import type { Database } from '../src/infra/postgres/database.ts'
import type { Seeded } from './faults/seeded.ts'
import { FastClock } from './moneyHouse.ts'

interface Timer {
  readonly dueMs: number
  readonly callback: () => void
}

/** Until all that a statement or a timer leads to is done: some of it asks for another turn of the event loop. */
async function turns(): Promise<void> {
  for (let turn = 0; turn < 3; turn += 1) await new Promise((resolve) => setImmediate(resolve))
}

/** It stands still while a statement is under way, and else goes on to the next timer at once. */
export class IdleClock extends FastClock {
  private readonly beganMs: number
  private readonly timers = new Set<Timer>()
  private elapsedMs = 0
  private underWay = 0

  constructor(epochMs: number) {
    super(epochMs)
    this.beganMs = epochMs
  }

  override now(): number {
    return this.beganMs + Math.floor(this.elapsedMs)
  }

  override monotonicMs(): number {
    return this.elapsedMs
  }

  override after(delayMs: number, callback: () => void): () => void {
    const timer = { dueMs: this.elapsedMs + Math.max(0, delayMs), callback }
    this.timers.add(timer)
    return () => this.timers.delete(timer)
  }

  /** The database: its statements and transactions are carried out one by one, in an order that the seed decides. */
  ordering(database: Database, random: Seeded): Database {
    const waiting: (() => Promise<void>)[] = []
    let isRunning = false
    const run = async () => {
      isRunning = true
      // All that is asked for in the same turn is there to be chosen from.
      for (await turns(); waiting.length > 0; await turns()) {
        const [chosen] = waiting.splice(random.between(0, waiting.length - 1), 1)
        await chosen?.()
      }
      isRunning = false
    }
    const inOrder = <T>(work: () => Promise<T>): Promise<T> => {
      this.underWay += 1
      return new Promise((resolve, reject) => {
        waiting.push(async () => {
          // Work may throw at once.
          await Promise.resolve().then(work).then(resolve, reject)
          this.underWay -= 1
        })
        if (!isRunning) void run()
      })
    }
    return {
      ...database,
      query: (text, parameters) => inOrder(() => database.query(text, parameters)),
      transaction: (work, about) => inOrder(() => database.transaction(work, about)),
    }
  }

  /** Goes on until the work is done; settles as it does. */
  async runUntil<T>(work: Promise<T>): Promise<T> {
    let isOver = false
    const over = work.finally(() => {
      isOver = true
    })
    over.catch(() => {})
    while (!isOver) {
      await turns()
      if (this.underWay === 0) this.next()
    }
    return over
  }

  private next(): void {
    const [first] = [...this.timers].sort((one, other) => one.dueMs - other.dueMs)
    if (first === undefined) return
    this.timers.delete(first)
    this.elapsedMs = Math.max(this.elapsedMs, first.dueMs)
    first.callback()
  }
}
