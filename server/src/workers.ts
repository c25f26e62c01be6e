/** Every background worker and sweep. */

import type { LiveCatalog } from './catalog/watch.ts'
import type { Attempts } from './idempotency/attempts.ts'
import { sweepAttempts } from './idempotency/sweep.ts'
import type { Artifacts } from './io/artifacts.ts'
import type { Database } from './io/postgres/database.ts'
import { removeLeftClips } from './io/transcode.ts'
import type { Log } from './kernel/log.ts'
import { type Clock, DAY_MS, MINUTE_MS } from './kernel/time.ts'
import { dropOldDays } from './money/ledger/dropDays.ts'
import { verifyNextDay } from './money/ledger/verifyInBackground.ts'
import type { OpenMoney } from './money/openMoney.ts'
import type { Slot } from './money/slot.ts'
import { ensureChargePartition } from './money/store.ts'
import type { Courier } from './notices/courier.ts'
import type { UpstreamClients } from './upstream/clients.ts'
import type { VideoDependencies } from './videos/dependencies.ts'
import { sweepFiles } from './videos/sweep.ts'
import { sweepWebhooks } from './webhooks/log/sweep.ts'

export interface WorkerDependencies {
  readonly database: Database
  readonly clock: Clock
  readonly log: Log
  readonly slot: Slot
  readonly catalog: LiveCatalog
  readonly clients: UpstreamClients
  /** Days for which single charges are kept; null: for ever. */
  readonly retentionDays: number | null
  /** Called when the verification of the books has found something. */
  readonly onDisagreements: (count: number) => void
  readonly money: OpenMoney
  readonly courier: Courier
  readonly attempts: Attempts
  /** Where the larger of the kept answers are. */
  readonly answers: Artifacts
  readonly videos: VideoDependencies
}

/** Partitions exist this many days ahead, so that midnight never waits for one. */
const PARTITION_DAYS_AHEAD = 2

/** Makes the partitions for today and the days to come. */
export async function preparePartitions(database: Database, nowMs: number): Promise<void> {
  for (let day = 0; day <= PARTITION_DAYS_AHEAD; day += 1) {
    await ensureChargePartition(database, nowMs + day * DAY_MS)
  }
}

/** All files of a day are listed for this, which costs money in an object store; what is found is an hour old. */
const FILES_MS = 15 * MINUTE_MS

type Step = readonly [name: string, run: (isStopping: () => boolean) => Promise<unknown>]

/** Starts everything; the result stops it. What may take long has a round of its own, and keeps nothing else waiting. */
export function startWorkers(dependencies: WorkerDependencies): () => void {
  const { database, clock, log, slot, catalog, clients, money, courier, retentionDays, onDisagreements } = dependencies
  const { attempts, answers: artifacts, videos } = dependencies
  const stopHousekeeping = startRound(clock, log, [
    ['partitions', () => preparePartitions(database, clock.now())],
    ['reclaim', () => slot.reclaim()],
    ['idle wallets', () => money.dropIdle()],
    ['upstream clients', () => clients.keepOnly(catalog.current().upstreams.values())],
  ])
  const stopNotices = startRound(clock, log, [['notices', () => courier.run()]])
  const stopAnswers = startRound(clock, log, [
    [
      'kept answers',
      (isStopping) => sweepAttempts({ database, clock, slot: slot.number, attempts, artifacts }, isStopping),
    ],
  ])
  const files: Step = ['files of videos', (isStopping) => sweepFiles(videos, isStopping)]
  // No job takes its clip for longer: its model's deadline is a day at most.
  const leftClips: Step = ['clips in the making', () => removeLeftClips(clock.now() - 2 * DAY_MS)]
  const stopFiles = startRound(clock, log, [files, leftClips], FILES_MS)
  const stopWebhooks = startRound(clock, log, [
    ['webhooks', (isStopping) => sweepWebhooks({ database, clock }, isStopping)],
  ])
  const retention: Step[] =
    retentionDays === null ? [] : [['retention', () => dropOldDays({ database, log }, retentionDays, clock.now())]]
  const stopBooks = startRound(clock, log, [
    ['verification', (isStopping) => verifyNextDay({ database, clock, log, onDisagreements, isStopping })],
    ...retention,
  ])
  return () => {
    stopHousekeeping()
    stopNotices()
    stopAnswers()
    stopFiles()
    stopWebhooks()
    stopBooks()
  }
}

/** A round once a minute, unless said otherwise. A step that fails is logged and met again in the next one. */
function startRound(clock: Clock, log: Log, steps: readonly Step[], everyMs = MINUTE_MS): () => void {
  let stopped = false
  let cancel = () => {}
  const round = async () => {
    for (const [step, run] of steps) {
      if (stopped) return
      await run(() => stopped).catch((error: unknown) => {
        if (!stopped) log.warn({ err: error, step }, 'housekeeping failed; tried again in the next round')
      })
    }
    if (!stopped) arm()
  }
  const arm = () => {
    cancel = clock.after(everyMs, () => void round())
  }
  arm()
  return () => {
    stopped = true
    cancel()
  }
}
