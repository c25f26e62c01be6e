import type { Database } from '../../infra/postgres/database.ts'
import { createShortTurns, type ShortTurns } from '../../infra/turns.ts'
import { createRunner, type Runner, type RunnerMetrics, type Source } from '../../jobs/runner.ts'
import { nextAttemptMs } from '../../lib/backoff.ts'
import type { DataKeys } from '../../lib/dataKeys.ts'
import { type RandomBytes, randomFraction, uuidV7 } from '../../lib/ids.ts'
import { unseal } from '../../lib/seal.ts'
import { Secret } from '../../lib/secret.ts'
import { SECOND_MS } from '../../lib/time.ts'
import { secretOf } from '../endpoints/create.ts'
import { type AttemptDependencies, attemptDelivery } from './attempt.ts'
import { type DeliveryAttemptResult, isDelivered } from './delivery.ts'
import { createDeliveryRecorder, type DeliveryRecorder } from './deliveryRecorder.ts'
import { FAST_LANE, type Lane, SLOW_LANE, SLOW_MS } from './lane.ts'
import { type DeliveryUpdate, type DueDelivery, findDue, queueNewDeliveries, takeTurns } from './store.ts'

/** With nothing to do the database is asked this often: what is published leaves within it. */
const POLL_MS = 250

/** The same while there is something to do. */
const BUSY_POLL_MS = 125

/** Up to this part of a delay is added, so that what failed together is not tried again together. */
const JITTER = 0.1

/** The lease of a turn: three times the longest attempt. A process that has held a turn for longer is taken for dead. */
const LEASE_MS = 30 * SECOND_MS

/** Deliveries told to their turns by one statement. */
const ROUTED_AT_ONCE = 1_000

/** Turns taken by one statement. */
const TURNS_AT_ONCE = 256

/**
 * The longest that a stop waits for attempts under way. Attempts that it ends then are made again by the next runner.
 */
const STOP_PATIENCE_MS = 2 * SECOND_MS

export interface DeliverDependencies extends AttemptDependencies {
  readonly database: Database
  readonly random: RandomBytes
  readonly dataKeys: DataKeys
  /** Attempts after the first, each so long after the failure before. */
  readonly retryMs: readonly number[]
  /** Called with each outcome, for metrics. */
  readonly onAttempt: (outcome: DeliveryAttemptResult) => void
  /** Called with what each attempt has made of its delivery, once that is written down. */
  readonly onSettled: (settled: DeliveryUpdate) => void
  /** Counts turns that are taken and given back. */
  readonly metrics?: RunnerMetrics
}

/**
 * Delivers what is due, beside all other processes that do. `run` resolves when every attempt begun by then is over and
 * written down.
 */
export type Deliverer = Pick<Runner, 'start' | 'run' | 'inWork' | 'close'>

/** The turn of an endpoint that this process has taken, with the deliveries that are due in it. */
interface TakenTurn {
  readonly endpointId: string
  readonly lease: string
  readonly due: readonly DueDelivery[]
}

/** Makes a deliverer that is not started yet. */
export function createDeliverer(dependencies: DeliverDependencies): Deliverer {
  const { clock, database, log, metrics } = dependencies
  const settler = createDeliveryRecorder(dependencies)
  const turns = createShortTurns(clock)
  const runner = createRunner<TakenTurn>({
    clock,
    log,
    name: 'webhooks',
    pollMs: POLL_MS,
    busyPollMs: BUSY_POLL_MS,
    patienceMs: STOP_PATIENCE_MS,
    abortedPatienceMs: STOP_PATIENCE_MS,
    async prepare() {
      // Else leases that ran out while the database was away would be taken, and sent again, before their results are in; and
      // where results can't be written at all, customers would be sent the same for ever.
      if (settler.isBehind()) return 'skip'
      return (await queueNewDeliveries(database, ROUTED_AT_ONCE)) === ROUTED_AT_ONCE ? 'more' : 'ready'
    },
    sources: [FAST_LANE, SLOW_LANE].map((lane) => laneSource(dependencies, settler, turns, lane)),
    idOf: ({ endpointId }) => endpointId,
    metrics,
  })
  return {
    start: runner.start,
    run: runner.run,
    inWork: runner.inWork,
    async close() {
      await runner.close()
      settler.close()
      dependencies.http.close()
    },
  }
}

/**
 * Turns of one lane. No lease is renewed: a turn is held for three times what an attempt may last. Attempts begin in `turns` of the event
 * loop: thousands may be due at once.
 */
function laneSource(
  dependencies: DeliverDependencies,
  settler: DeliveryRecorder,
  turns: ShortTurns,
  lane: Lane,
): Source<TakenTurn> {
  const { database, clock, random } = dependencies
  /** Attempts under way. */
  let inFlight = 0
  return {
    kind: lane.isSlow ? 'webhook_turns_slow' : 'webhook_turns_fast',
    atOnce: lane.inFlightMost,
    // A full turn may have more due: look again at once, without waiting for the poll.
    makesDue: ({ due }) => due.length === lane.inFlightEach,
    async claim({ room, begin }) {
      const limit = Math.min(Math.floor((lane.inFlightMost - inFlight) / lane.inFlightEach), TURNS_AT_ONCE, room)
      if (limit <= 0) return false
      const nowMs = clock.now()
      const lease = uuidV7(nowMs, random)
      const endpointIds = await takeTurns(database, { ...lane, lease, nowMs, untilMs: nowMs + LEASE_MS, limit })
      if (endpointIds.length === 0) return false
      const due = await findDue(database, endpointIds, nowMs, lane.inFlightEach).catch((error: unknown) => {
        // Else they would wait until this runner counts as dead.
        for (const endpointId of endpointIds) void settler.giveBack({ endpointId, lease, isSlow: null })
        throw error
      })
      const byEndpoint = Map.groupBy(due, (delivery) => delivery.endpoint_id)
      for (const endpointId of endpointIds) begin({ endpointId, lease, due: byEndpoint.get(endpointId) ?? [] })
      return endpointIds.length === limit
    },
    async work({ endpointId, lease, due }, signal) {
      inFlight += due.length
      let isSlow: boolean | null = null
      const attempts = due.map(async (delivery) => {
        await turns.take()
        const outcome = await attempt(dependencies, delivery, signal).finally(() => {
          inFlight -= 1
        })
        if (outcome === null) return
        isSlow = outcome.failure === 'timeout' || outcome.latencyMs >= SLOW_MS
        settler.settle(settledOf(dependencies, delivery, lease, outcome))
      })
      await Promise.all(attempts)
      await settler.giveBack({ endpointId, lease, isSlow })
      return 'succeeded'
    },
  }
}

async function attempt(
  dependencies: DeliverDependencies,
  { endpoint_id, url, event_id: eventId, body, secret: sealed, data_key }: DueDelivery,
  stop: AbortSignal,
): Promise<DeliveryAttemptResult | null> {
  const { dataKeys, onAttempt } = dependencies
  const secret = async () => {
    const dataKey = await dataKeys.find(data_key)
    return new Secret(Buffer.from(unseal(dataKey, secretOf(endpoint_id), sealed)).toString())
  }
  const outcome = await attemptDelivery(dependencies, { url, secret, eventId, body }, stop)
  if (outcome !== null) onAttempt(outcome)
  return outcome
}

function settledOf(
  { clock, random, retryMs }: DeliverDependencies,
  { id, endpoint_id, attempts, attempts_before_round, created_at }: DueDelivery,
  lease: string,
  outcome: DeliveryAttemptResult,
): DeliveryUpdate {
  const delivered = isDelivered(outcome)
  const failed = attempts - attempts_before_round + 1
  const dueAtMs = delivered ? null : nextAttemptMs(retryMs, failed, clock.now(), JITTER * randomFraction(random))
  const state = delivered ? ('delivered' as const) : dueAtMs === null ? ('dead' as const) : ('pending' as const)
  const sinceEventMs = delivered && attempts_before_round === 0 ? clock.now() - created_at.getTime() : null
  const ids = { deliveryId: id, endpointId: endpoint_id, lease }
  return { ...ids, attemptsBefore: attempts, state, dueAtMs, sinceEventMs, outcome }
}
