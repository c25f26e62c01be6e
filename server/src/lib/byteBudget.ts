/**
 * Memory for what is large, shared by all calls of a process. Calls that find too little left wait. Each owner has a share, and
 * owners take turns.
 */

import { addAmount } from './amountsByOwner.ts'

/** Answers of up to so many bytes are not counted: there are no more of them than open requests. */
export const LARGE_BYTES = 1 << 20

/**
 * Reservations of other owners that may go before one that waits for memory, where it asks for no more than its owner's share. Without
 * an end to it, many small ones would keep a larger one waiting for ever.
 */
const PASSES_MOST = 64

/** Thrown where as many wait already as may. */
export class BudgetFull extends Error {}

/** The words for a client whose answer finds no memory: a large answer takes its server and its client some seconds. */
export const NO_MEMORY_MESSAGE =
  'Too many large answers are being made here at this moment. Nothing was charged. Try again shortly.'
export const NO_MEMORY_RETRY_AFTER_SECONDS = 5

/** The memory that one call has of a budget: nothing at first. */
export interface MemoryReservation {
  readonly bytes: number
  /** How often a `take` found too little left, and waited. */
  readonly waits: number
  /**
   * Takes so many bytes in place of what it has, in turn. Rejects with {@link BudgetFull} or the signal's reason. Never
   * called while another `take` of the same reservation waits.
   */
  take(bytes: number, signal: AbortSignal): Promise<void>
  /** Changes the reservation to `bytes` if the owner's share allows it and nobody is ahead in the queue. Returns false, unchanged, otherwise. */
  tryTake(bytes: number): boolean
  /** From now on it has so many bytes, at once: less, or a little more than the budget may have, until others give back. */
  set(bytes: number): void
  /** Gives everything back; may be called more than once. */
  close(): void
}

interface Waiting {
  readonly bytes: number
  readonly serve: () => void
  readonly refuse: (reason: unknown) => void
  /** The reservations of others that went before it. */
  passes: number
}

export class ByteBudget {
  private readonly bytesMost: number
  private readonly waitingMost: number
  private readonly ownerBytesMost: number
  private taken = 0
  private waitingCount = 0
  private readonly owners = new Map<string, number>()
  /** Those that wait, by owner. The owner whose turn is next stands first. */
  private readonly lines = new Map<string, Set<Waiting>>()

  /**
   * `waitingMost`: reservations that may wait at one time. `ownerBytesMost`: what one owner may take in several reservations; a single
   * one may take more.
   */
  constructor(bytesMost: number, waitingMost: number, ownerBytesMost: number) {
    this.bytesMost = bytesMost
    this.waitingMost = waitingMost
    this.ownerBytesMost = ownerBytesMost
  }

  get takenBytes(): number {
    return this.taken
  }

  get waiting(): number {
    return this.waitingCount
  }

  open(owner: string): MemoryReservation {
    let own = 0
    let waits = 0
    let isClosed = false
    const set = (bytes: number) => {
      this.add(owner, bytes - own)
      own = bytes
      this.serve()
    }
    return {
      get bytes() {
        return own
      },
      get waits() {
        return waits
      },
      take: async (bytes, signal) => {
        set(0)
        await this.place(owner, bytes, signal, () => {
          waits += 1
        })
        own = bytes
        // The call may have ended while it waited.
        if (isClosed) set(0)
      },
      tryTake: (bytes) => {
        if (isClosed || !this.mayTake(owner, bytes - own)) return false
        set(bytes)
        return true
      },
      set: (bytes) => {
        if (!isClosed) set(bytes)
      },
      close: () => {
        isClosed = true
        set(0)
      },
    }
  }

  private add(owner: string, bytes: number): void {
    this.taken += bytes
    addAmount(this.owners, owner, bytes)
  }

  /** Alone, anything fits: what asks for more than there is must not wait for ever. */
  private fits(bytes: number): boolean {
    return this.taken === 0 || this.taken + bytes <= this.bytesMost
  }

  private fitsShare(owner: string, bytes: number): boolean {
    const owned = this.owners.get(owner) ?? 0
    return owned === 0 || owned + bytes <= this.ownerBytesMost
  }

  /** Returns whether a reservation that does not wait yet may take so many bytes now. */
  private mayTake(owner: string, bytes: number): boolean {
    if (this.lines.has(owner) || !this.fitsShare(owner, bytes) || !this.fits(bytes)) return false
    const passed: Waiting[] = []
    for (const [other, [first]] of this.lines) {
      if (first !== undefined && this.fitsShare(other, first.bytes)) passed.push(first)
    }
    return this.pass(passed)
  }

  /** Lets another go before those that find too little left; false: one of them was passed often enough. */
  private pass(passed: readonly Waiting[]): boolean {
    if (passed.some(({ bytes, passes }) => passes >= PASSES_MOST && bytes <= this.ownerBytesMost)) return false
    for (const waiting of passed) waiting.passes += 1
    return true
  }

  private async place(owner: string, bytes: number, signal: AbortSignal, onWait: () => void): Promise<void> {
    signal.throwIfAborted()
    if (this.mayTake(owner, bytes)) {
      this.add(owner, bytes)
      return
    }
    if (this.waitingCount >= this.waitingMost && !this.refuseLongest(owner)) throw tooManyWait()
    onWait()
    await this.wait(owner, bytes, signal)
  }

  private wait(owner: string, bytes: number, signal: AbortSignal): Promise<void> {
    return new Promise((resolve, reject) => {
      const onAbort = () => {
        this.leaveLine(owner, waiting)
        reject(signal.reason)
        // A smaller one behind it may fit now.
        this.serve()
      }
      const settled = () => signal.removeEventListener('abort', onAbort)
      const waiting: Waiting = {
        bytes,
        serve: () => {
          settled()
          resolve()
        },
        refuse: (reason) => {
          settled()
          reject(reason)
        },
        passes: 0,
      }
      signal.addEventListener('abort', onAbort, { once: true })
      const line = this.lines.get(owner)
      if (line === undefined) this.lines.set(owner, new Set([waiting]))
      else line.add(waiting)
      this.waitingCount += 1
    })
  }

  private leaveLine(owner: string, waiting: Waiting): void {
    const line = this.lines.get(owner)
    if (!line?.delete(waiting)) return
    this.waitingCount -= 1
    if (line.size === 0) this.lines.delete(owner)
  }

  /** Refuses the last of the longest line, for one of an owner with a shorter one; false: there is no longer line. */
  private refuseLongest(owner: string): boolean {
    let longestOwner = owner
    let longest = 1 + (this.lines.get(owner)?.size ?? 0)
    for (const [other, { size }] of this.lines) {
      if (size <= longest) continue
      longestOwner = other
      longest = size
    }
    const last = longestOwner === owner ? undefined : [...(this.lines.get(longestOwner) ?? [])].at(-1)
    if (last === undefined) return false
    this.leaveLine(longestOwner, last)
    last.refuse(tooManyWait())
    return true
  }

  /** Serves in the order in which they came those of one owner; owners take turns. */
  private serve(): void {
    while (this.serveNext());
  }

  private serveNext(): boolean {
    const passed: Waiting[] = []
    for (const [owner, line] of this.lines) {
      const [first] = line
      // An owner that has its share keeps nobody else waiting.
      if (first === undefined || !this.fitsShare(owner, first.bytes)) continue
      if (!this.fits(first.bytes)) {
        passed.push(first)
        continue
      }
      if (!this.pass(passed)) return false
      this.leaveLine(owner, first)
      if (line.size > 0) {
        this.lines.delete(owner)
        this.lines.set(owner, line)
      }
      this.add(owner, first.bytes)
      first.serve()
      return true
    }
    return false
  }
}

function tooManyWait(): BudgetFull {
  return new BudgetFull('too many wait for memory')
}
