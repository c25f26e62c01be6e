/** Thrown by {@link Pool.take} when everything is in use and the waiting room is full. */
export class PoolFull extends Error {}

/**
 * A fixed set of things, each used by one caller at a time. A caller that finds none free waits in order of arrival,
 * in a waiting room of `maximumWaiting` places.
 */
export class Pool<Item> {
  readonly size: number
  private readonly free: Item[]
  private readonly waiting = new Set<(item: Item) => void>()
  private readonly maximumWaiting: number

  constructor(items: readonly Item[], maximumWaiting: number) {
    this.size = items.length
    this.free = [...items]
    this.maximumWaiting = maximumWaiting
  }

  get inUse(): number {
    return this.size - this.free.length
  }

  get waitingCount(): number {
    return this.waiting.size
  }

  /** Resolves with an item that the caller must give back. Rejects with {@link PoolFull} or the signal's reason. */
  take(signal: AbortSignal): Promise<Item> {
    if (signal.aborted) return Promise.reject(signal.reason)
    const item = this.free.pop()
    if (item !== undefined) return Promise.resolve(item)
    if (this.waiting.size >= this.maximumWaiting) return Promise.reject(new PoolFull('every place is taken'))
    return new Promise((resolve, reject) => {
      const leave = () => {
        this.waiting.delete(serve)
        reject(signal.reason)
      }
      const serve = (served: Item) => {
        signal.removeEventListener('abort', leave)
        resolve(served)
      }
      signal.addEventListener('abort', leave, { once: true })
      this.waiting.add(serve)
    })
  }

  /** Gives an item to whoever waits longest, or back to the pool. */
  giveBack(item: Item): void {
    const [next] = this.waiting
    if (next === undefined) {
      this.free.push(item)
      return
    }
    this.waiting.delete(next)
    next(item)
  }
}
