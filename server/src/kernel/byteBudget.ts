/** Memory for what is large, shared by all calls of a process: who finds too little left waits in turn. */

/** Answers of up to so many bytes are not counted: there are no more of them than open requests. */
export const LARGE_BYTES = 1 << 20

/** Thrown where as many wait already as may. */
export class BudgetFull extends Error {}

/** What one call has of a budget: nothing at first. */
export interface Room {
  /**
   * Takes so many bytes in place of what it has, in turn. Rejects with {@link BudgetFull} or the signal's reason. Never
   * called while another `take` of the same room waits.
   */
  take(bytes: number, signal: AbortSignal): Promise<void>
  /** From now on it has so many bytes, at once: less, or a little more than the budget may have, until others give back. */
  set(bytes: number): void
  /** Gives everything back; may be called more than once. */
  close(): void
}

interface Waiting {
  readonly bytes: number
  readonly serve: () => void
}

export class ByteBudget {
  private readonly bytesMost: number
  private readonly waitingMost: number
  private taken = 0
  private readonly line = new Set<Waiting>()

  /** `waitingMost`: rooms that may wait at one time. */
  constructor(bytesMost: number, waitingMost: number) {
    this.bytesMost = bytesMost
    this.waitingMost = waitingMost
  }

  get takenBytes(): number {
    return this.taken
  }

  get waiting(): number {
    return this.line.size
  }

  open(): Room {
    let own = 0
    let isClosed = false
    const set = (bytes: number) => {
      this.taken += bytes - own
      own = bytes
      this.serve()
    }
    return {
      take: async (bytes, signal) => {
        set(0)
        await this.place(bytes, signal)
        // The call may have ended while it waited.
        own = isClosed ? 0 : bytes
        if (isClosed) this.giveBack(bytes)
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

  private giveBack(bytes: number): void {
    this.taken -= bytes
    this.serve()
  }

  /** Alone, anything fits: what asks for more than there is must not wait for ever. */
  private fits(bytes: number): boolean {
    return this.taken === 0 || this.taken + bytes <= this.bytesMost
  }

  private place(bytes: number, signal: AbortSignal): Promise<void> {
    if (signal.aborted) return Promise.reject(signal.reason)
    if (this.line.size === 0 && this.fits(bytes)) {
      this.taken += bytes
      return Promise.resolve()
    }
    if (this.line.size >= this.waitingMost) return Promise.reject(new BudgetFull('too many wait for memory'))
    return new Promise((resolve, reject) => {
      const onAbort = () => {
        this.line.delete(waiting)
        reject(signal.reason)
        // Who stood behind it may fit.
        this.serve()
      }
      const serve = () => {
        signal.removeEventListener('abort', onAbort)
        resolve()
      }
      const waiting = { bytes, serve }
      signal.addEventListener('abort', onAbort, { once: true })
      this.line.add(waiting)
    })
  }

  /** In the order in which they came: a large one is not passed by others for ever. */
  private serve(): void {
    for (const waiting of this.line) {
      if (!this.fits(waiting.bytes)) return
      this.line.delete(waiting)
      this.taken += waiting.bytes
      waiting.serve()
    }
  }
}
