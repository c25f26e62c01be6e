/** Decides what goes on next: each statement and each request waits here until the history lets it go. */

import type { Seeded } from '../faults/seeded.ts'

/** Thrown inside a transaction of a process that is killed, so that the database rolls it back. */
export class Killed extends Error {}

interface Waiting {
  readonly who: object
  readonly go: () => void
  /** Called instead of `go` when its process is killed. Left out: it never goes on. */
  readonly kill?: (() => void) | undefined
}

/**
 * `isLoose`: several statements may be under way at once, and the database says which comes first. Otherwise one is, and a
 * seed is the same history every time.
 */
export class Turns {
  private readonly waiting: Waiting[] = []
  private underWay = 0
  private wake: (() => void) | null = null
  private readonly random: Seeded
  readonly isLoose: boolean

  constructor(random: Seeded, isLoose: boolean) {
    this.random = random
    this.isLoose = isLoose
  }

  get waitingCount(): number {
    return this.waiting.length
  }

  /** Waits for its turn. `who`: the process that waits. */
  wait(who: object, isInTransaction = false): Promise<void> {
    return new Promise((go, reject) => {
      this.waiting.push({ who, go, kill: isInTransaction ? () => reject(new Killed()) : undefined })
      this.wake?.()
    })
  }

  /** Runs work of the outside world, for which the next turn waits. */
  async outside<T>(work: () => Promise<T>): Promise<T> {
    this.underWay += 1
    try {
      return await work()
    } finally {
      this.underWay -= 1
      this.wake?.()
    }
  }

  /** Lets one that waits go on, by the seed. */
  releaseOne(): void {
    const [next] = this.waiting.splice(this.random.between(0, this.waiting.length - 1), 1)
    next?.go()
  }

  /** Ends all that waits of a process. */
  kill(who: object): void {
    for (const each of this.waiting.filter((waiting) => waiting.who === who)) {
      this.waiting.splice(this.waiting.indexOf(each), 1)
      each.kill?.()
    }
  }

  /** Resolves when nothing goes on by itself any more; in a loose history as soon as somebody waits. */
  async settled(): Promise<void> {
    for (;;) {
      await turn()
      if (this.underWay === 0 || (this.isLoose && this.waiting.length > 0)) return
      await new Promise<void>((resolve) => {
        this.wake = resolve
      })
    }
  }
}

function turn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve))
}
