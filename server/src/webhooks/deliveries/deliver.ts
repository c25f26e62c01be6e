import type { Database } from '../../io/postgres/database.ts'
import { type RandomBytes, uuidV7 } from '../../kernel/ids.ts'
import { unseal } from '../../kernel/seal.ts'
import { Secret } from '../../kernel/secret.ts'
import { SECOND_MS, sleep } from '../../kernel/time.ts'
import { secretOf } from '../endpoints/create.ts'
import { type AttemptDependencies, attemptDelivery } from './attempt.ts'
import { isDelivered, type Outcome } from './delivery.ts'
import { FAST_LANE, type Lane, SLOW_LANE, SLOW_MS } from './lane.ts'
import { nextAttemptMs } from './schedule.ts'
import { createSettler } from './settler.ts'
import { type DueDelivery, findDue, routeNew, type Settled, takeTurns } from './store.ts'

/** With nothing to do the database is asked this often: what is published leaves within it. */
const POLL_MS = 250

/** A worker that has held a turn for so long is dead: thrice what an attempt may last. */
const LEASE_MS = 30 * SECOND_MS

/** Deliveries told to their turns by one statement. */
const ROUTED_AT_ONCE = 1_000

/** Turns taken by one statement. */
const TURNS_AT_ONCE = 256

/** What a stop waits for attempts under way; those that are ended then are made again by whoever comes next. */
const STOP_PATIENCE_MS = 2 * SECOND_MS

export interface DeliverDependencies extends AttemptDependencies {
  readonly database: Database
  readonly random: RandomBytes
  readonly dataKey: Uint8Array
  /** Attempts after the first, each so long after the failure before. */
  readonly retryMs: readonly number[]
  /** Called with each outcome, for metrics. */
  readonly onAttempt: (outcome: Outcome) => void
  /** Called with what each attempt has made of its delivery, once that is written down. */
  readonly onSettled: (settled: Settled) => void
}

/** Delivers what is due, with all other processes that do. */
export interface Deliverer {
  /** Begins to look for work, now and then. */
  start(): void
  /** Looks for work now, and resolves when every attempt begun by then is over and written down. For tests. */
  run(): Promise<void>
  close(): Promise<void>
}

export function createDeliverer(dependencies: DeliverDependencies): Deliverer {
  const { database, clock, log, random } = dependencies
  const stopping = new AbortController()
  const inFlight = new Map<Lane, number>([
    [FAST_LANE, 0],
    [SLOW_LANE, 0],
  ])
  const settler = createSettler(dependencies)
  const running = new Set<Promise<void>>()
  let isClosed = false
  let looking: Promise<unknown> = Promise.resolve()
  let isStarted = false
  let isLooking = false
  let isAsked = false
  let cancelPoll = () => {}

  const begin = async (lane: Lane, lease: string, endpointId: string, due: readonly DueDelivery[]) => {
    inFlight.set(lane, (inFlight.get(lane) ?? 0) + due.length)
    let isSlow: boolean | null = null
    const attempts = due.map(async (delivery) => {
      const outcome = await attempt(dependencies, delivery, stopping.signal)
      inFlight.set(lane, (inFlight.get(lane) ?? 0) - 1)
      if (outcome === null) return
      isSlow = outcome.failure === 'timeout' || outcome.latencyMs >= SLOW_MS
      settler.settle(settledOf(dependencies, delivery, lease, outcome))
    })
    await Promise.all(attempts)
    await settler.giveBack({ endpointId, lease, isSlow })
    // Its queue may go on: not only at the next poll.
    if (due.length === lane.inFlightEach) wake()
  }

  /** Takes what the lane has room for; whether there may be more. */
  const take = async (lane: Lane): Promise<boolean> => {
    const room = Math.floor((lane.inFlightMost - (inFlight.get(lane) ?? 0)) / lane.inFlightEach)
    const limit = Math.min(room, TURNS_AT_ONCE)
    if (limit <= 0) return false
    const nowMs = clock.now()
    const lease = uuidV7(nowMs, random)
    const endpointIds = await takeTurns(database, { ...lane, lease, nowMs, untilMs: nowMs + LEASE_MS, limit })
    if (endpointIds.length === 0) return false
    const due = await findDue(database, endpointIds, nowMs, lane.inFlightEach).catch((error: unknown) => {
      // Else they would wait until this worker counts as dead.
      for (const endpointId of endpointIds) void settler.giveBack({ endpointId, lease, isSlow: null })
      throw error
    })
    const byEndpoint = Map.groupBy(due, (delivery) => delivery.endpoint_id)
    for (const endpointId of endpointIds) {
      const work = begin(lane, lease, endpointId, byEndpoint.get(endpointId) ?? []).finally(() => running.delete(work))
      running.add(work)
    }
    return endpointIds.length === limit
  }

  /** One look for work; whether there may be more at once. */
  const look = async (): Promise<boolean> => {
    // Else leases that ran out while the database was away would be taken, and sent again, before their results are in; and
    // where results can't be written at all, customers would be sent the same for ever.
    if (settler.isBehind()) return false
    const routed = await routeNew(database, ROUTED_AT_ONCE)
    const [fast, slow] = [await take(FAST_LANE), await take(SLOW_LANE)]
    return routed === ROUTED_AT_ONCE || fast || slow
  }

  const poll = async () => {
    isLooking = true
    isAsked = false
    let isMore = false
    try {
      const looked = look()
      looking = looked.catch(() => {})
      isMore = await looked
    } catch (error) {
      if (!isClosed) log.warn({ err: error }, 'webhook deliveries could not be taken; tried again in a moment')
    }
    isLooking = false
    if (!isClosed) cancelPoll = clock.after(isMore || isAsked ? 0 : POLL_MS, () => void poll())
  }
  /** Looks again as soon as the look that is under way is over. */
  const wake = () => {
    if (isAsked || isClosed || !isStarted) return
    isAsked = true
    if (isLooking) return
    cancelPoll()
    cancelPoll = clock.after(0, () => void poll())
  }

  return {
    start() {
      isStarted = true
      void poll()
    },
    async run() {
      while (await look());
      await Promise.all(running)
    },
    async close() {
      isClosed = true
      cancelPoll()
      // What it has taken by then is given back below.
      await looking
      await Promise.race([Promise.all(running), sleep(clock, STOP_PATIENCE_MS)])
      stopping.abort()
      await Promise.race([Promise.all(running), sleep(clock, STOP_PATIENCE_MS)])
      settler.close()
      dependencies.http.close()
    },
  }
}

async function attempt(
  dependencies: DeliverDependencies,
  { endpoint_id, url, event_id: eventId, body, secret: sealed }: DueDelivery,
  stop: AbortSignal,
): Promise<Outcome | null> {
  const { dataKey, onAttempt } = dependencies
  const secret = () => new Secret(Buffer.from(unseal(dataKey, secretOf(endpoint_id), sealed)).toString())
  const outcome = await attemptDelivery(dependencies, { url, secret, eventId, body }, stop)
  if (outcome !== null) onAttempt(outcome)
  return outcome
}

function settledOf(
  { clock, random, retryMs }: DeliverDependencies,
  { id, endpoint_id, attempts, attempts_before_round, created_at }: DueDelivery,
  lease: string,
  outcome: Outcome,
): Settled {
  const delivered = isDelivered(outcome)
  const failed = attempts - attempts_before_round + 1
  const dueAtMs = delivered ? null : nextAttemptMs(retryMs, failed, clock.now(), shareOf(random))
  const state = delivered ? ('delivered' as const) : dueAtMs === null ? ('dead' as const) : ('pending' as const)
  const sinceEventMs = delivered && attempts_before_round === 0 ? clock.now() - created_at.getTime() : null
  const ids = { deliveryId: id, endpointId: endpoint_id, lease }
  return { ...ids, attemptsBefore: attempts, state, dueAtMs, sinceEventMs, outcome }
}

/** A random number from 0 up to, and without, 1. */
function shareOf(random: RandomBytes): number {
  const [high = 0, low = 0] = random(2)
  return (high * 256 + low) / 65_536
}
