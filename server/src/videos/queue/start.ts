import { DEFAULT_VIDEO_RUNNING } from '../../catalog/model.ts'
import type { Transaction } from '../../infra/postgres/database.ts'
import { LOWEST_UUID } from '../../lib/ids.ts'
import type { ProviderTarget } from '../../providers/dialect/spec.ts'
import type { VideoDependencies } from '../job/dependencies.ts'
import { orderedTargetsOf, submissionAt } from '../job/targets.ts'
import { LEASE_MS, type Video } from '../job/video.ts'
import { listWaiting, lockQueue, noteTurn, takeNext } from './store.ts'
import { takeBack } from './takeBack.ts'

/** After a refusal another job of the same organization is tried: it may be this one that nobody takes, and not all. */
const PASSED_OVER_MOST = 4

/** A job whose turn has come, and the targets that are asked for it, the one that is written down first. */
export interface Started {
  readonly video: Video
  readonly targets: readonly ProviderTarget[]
}

/** Models for which jobs wait and may be started. */
export function waitingModels({ database, clock }: VideoDependencies): Promise<string[]> {
  return listWaiting(database, clock.now())
}

/**
 * Takes up jobs of a model whose turn it is: one of each organization that waits, in turn, as many as may be under
 * way beside the others and at most `most`. The jobs that it gives are written down as this process's. Where nobody
 * knows whether they were written down, nothing is sent, and that is put right before it rejects, as long as
 * `signal` allows.
 */
export async function startNext(
  dependencies: VideoDependencies,
  model: string,
  most: number,
  signal: AbortSignal,
): Promise<Started[]> {
  const { database, clock, catalog } = dependencies
  const found = catalog().find(model)
  const targets = orderedTargetsOf(dependencies, model)
  const [first] = targets
  if (found.kind !== 'found' || first === undefined) return []
  const { concurrency } = found.model.video ?? DEFAULT_VIDEO_RUNNING
  const submissions: string[] = []
  const start = async (tx: Transaction) => {
    const queue = await lockQueue(tx, model, clock.now())
    if (queue === null) return []
    const started: Started[] = []
    const room = Math.min(concurrency - queue.underWay, most)
    let last = queue.lastOrganizationId
    while (started.length < room) {
      const taking = {
        passedOver: queue.failures % PASSED_OVER_MOST,
        submission: submissionAt(dependencies, first),
        leasedUntilMs: clock.now() + LEASE_MS,
      }
      const video =
        (await takeNext(tx, model, { ...taking, afterOrganizationId: last })) ??
        (await takeNext(tx, model, { ...taking, afterOrganizationId: LOWEST_UUID }))
      if (video === null) break
      submissions.push(taking.submission.id)
      started.push({ video, targets })
      last = video.organizationId
    }
    if (started.length > 0) await noteTurn(tx, model, last)
    return started
  }
  try {
    return await database.transaction(start)
  } catch (error) {
    if (submissions.length > 0) await takeBack(dependencies, submissions, signal)
    throw error
  }
}
