import type { Log } from '../lib/log.ts'
import type { Clock } from '../lib/time.ts'

/** How work on an item ended. `failed`: it is tried again. `dead`: it is not. */
export type JobOutcome = 'succeeded' | 'failed' | 'dead'

/** The same, for metrics. `lost`: another process took the item over. `stopped`: the runner gave it up at its close. */
export type Ended = JobOutcome | 'lost' | 'stopped'

/** How an item is kept from other processes for as long as the work on it takes. */
export interface Lease<Item> {
  /** Between two renewals; far less than the lease lasts, so that one that fails does no harm. */
  readonly renewMs: number
  /** Makes the lease last longer. False: the item is another process's now, or over. */
  renew(item: Item): Promise<boolean>
  /** Lets other processes take the item at once. Called when the runner gave up, and the work ended for that. */
  giveBack(item: Item): Promise<void>
}

interface Carrying<Item> {
  readonly clock: Clock
  readonly log: Log
  readonly lease?: Lease<Item>
  readonly idOf: (item: Item) => string
}

interface Carried<Item> {
  readonly kind: string
  work(item: Item, signal: AbortSignal, stopping: AbortSignal): Promise<JobOutcome>
}

const LOST = new Error('the item is no longer this process’s')

/** Works on one item and renews its lease meanwhile. Never rejects. */
export async function carryOut<Item>(
  carrying: Carrying<Item>,
  source: Carried<Item>,
  item: Item,
  stopping: AbortSignal,
): Promise<Ended> {
  const { log, lease, idOf } = carrying
  const own = lease === undefined ? null : keepLease(carrying, lease, item, stopping)
  const signal = own?.signal ?? stopping
  try {
    return await source.work(item, signal, stopping)
  } catch (error) {
    const fields = { kind: source.kind, id: idOf(item) }
    if (!signal.aborted) {
      log.warn({ err: error, ...fields }, 'work on a job broke off; it is taken up again')
      return 'failed'
    }
    if (!stopping.aborted) return 'lost'
    // A renewal that is under way would take the item again.
    await own?.end()
    await lease?.giveBack(item).catch((failure: unknown) => {
      log.warn({ err: failure, ...fields }, 'a job could not be given back; it is taken up when its lease is over')
    })
    return 'stopped'
  } finally {
    void own?.end()
  }
}

/**
 * Renews a lease until `end` is called, which resolves when no renewal is under way any more. The signal aborts when the lease
 * is lost, or with `stopping`.
 */
function keepLease<Item>(
  { clock, log, idOf }: Carrying<Item>,
  lease: Lease<Item>,
  item: Item,
  stopping: AbortSignal,
): { readonly signal: AbortSignal; end(): Promise<void> } {
  const own = new AbortController()
  let cancelTimer = () => {}
  let renewing = Promise.resolve()
  const renew = async () => {
    try {
      if (!(await lease.renew(item))) own.abort(LOST)
    } catch (error) {
      log.warn({ err: error, id: idOf(item) }, 'the lease of a job could not be renewed; tried again shortly')
    }
    if (!own.signal.aborted) arm()
  }
  const arm = () => {
    cancelTimer = clock.after(lease.renewMs, () => {
      renewing = renew()
    })
  }
  const onStop = () => own.abort(stopping.reason)
  stopping.addEventListener('abort', onStop, { once: true })
  if (stopping.aborted) onStop()
  arm()
  return {
    signal: own.signal,
    end() {
      own.abort(LOST)
      cancelTimer()
      stopping.removeEventListener('abort', onStop)
      return renewing
    },
  }
}
