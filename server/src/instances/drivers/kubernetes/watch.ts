/** Watches the pods of machines, so that a change is known before the next list. */

import { z } from 'zod'
import type { KubernetesDriverSettings } from '../../../catalog/offering.ts'
import { doubledMs } from '../../../lib/backoff.ts'
import type { Log } from '../../../lib/log.ts'
import { type Clock, MINUTE_MS, SECOND_MS } from '../../../lib/time.ts'
import type { MachineState } from '../driver.ts'
import { ClusterFailure } from './clusterFailure.ts'
import type { MachineCluster } from './connect.ts'
import { isOwnNamespace, OWN_OBJECTS } from './machineObjects.ts'
import { machineOfObject, type PodSeen, PodShape, podState } from './machineState.ts'
import { listAll } from './pages.ts'
import { pauseFor } from './pause.ts'

/** The API ends a watch after this time; then it is resumed. */
const WATCH_SECONDS = 240

/** A watch that the API has not ended by then hangs. */
const HANGS_MS = (WATCH_SECONDS + 30) * SECOND_MS

/** Between failures. */
const PAUSE_MS = SECOND_MS
const PAUSE_MOST_MS = MINUTE_MS

/** Changes from a version on that the API has forgotten. */
const GONE = 410

const EventShape = z.object({
  type: z.enum(['ADDED', 'MODIFIED', 'DELETED', 'BOOKMARK', 'ERROR']),
  object: z.unknown(),
})

const VersionedShape = z.object({ metadata: z.object({ resourceVersion: z.string().min(1) }) })

const ErrorShape = z.object({ code: z.number() })

export interface PodWatchMeans {
  readonly settings: KubernetesDriverSettings
  readonly cluster: MachineCluster
  readonly clock: Clock
  readonly log: Log
}

/** How far the watch is. */
interface Progress {
  /** By the ids of pods; null: nothing was listed yet. */
  known: Map<string, KnownPod> | null
  /** Changes up to here are known; empty: the pods are to be listed. */
  version: string
}

interface KnownPod {
  readonly machine: string
  readonly state: MachineState
}

/**
 * Tells the name of each machine whose pod changed its state or is gone, until the signal aborts. Goes on from the last change after a
 * connection has ended, and from a new list where the API has forgotten that change. Nothing is told of the first list.
 */
export async function watchMachines(
  means: PodWatchMeans,
  tell: (name: string) => void,
  signal: AbortSignal,
): Promise<void> {
  const { clock, log } = means
  const progress: Progress = { known: null, version: '' }
  for (let failures = 0; !signal.aborted; ) {
    const startedMs = clock.monotonicMs()
    try {
      if (progress.version === '') await listAnew(means, progress, tell, signal)
      await follow(means, progress, tell, signal)
      // One that ends at once, again and again, must not keep us busy.
      failures = clock.monotonicMs() - startedMs < PAUSE_MS ? failures + 1 : 0
    } catch (error) {
      if (signal.aborted) return
      if (error instanceof ClusterFailure && error.status === GONE) progress.version = ''
      else log.warn({ err: error }, 'the watch of the cluster broke; it is resumed')
      failures += 1
    }
    if (failures > 0) await pauseFor(clock, doubledMs(PAUSE_MS, PAUSE_MOST_MS, failures - 1), signal)
  }
}

/** Lists all pods, and tells of those that changed since they were known. */
async function listAnew(
  { settings, cluster: { core, ask } }: PodWatchMeans,
  progress: Progress,
  tell: (name: string) => void,
  signal: AbortSignal,
): Promise<void> {
  const asked = (page: object) =>
    ask((options) => core.listPodForAllNamespaces({ labelSelector: OWN_OBJECTS, ...page }, options), signal)
  const { items, version } = await listAll(asked, PodShape)
  const before = progress.known
  const known = new Map<string, KnownPod>()
  for (const pod of items) {
    const own = knownPod(settings, pod)
    if (own !== null) known.set(own.uid, own)
  }
  Object.assign(progress, { known, version })
  if (before === null) return
  for (const [uid, { machine, state }] of known) if (before.get(uid)?.state !== state) tell(machine)
  for (const [uid, { machine }] of before) if (!known.has(uid)) tell(machine)
}

/** Hears of changes for as long as the connection lasts. Throws `ClusterFailure`, with the status 410 where they are forgotten. */
async function follow(
  { cluster, clock, settings }: PodWatchMeans,
  progress: Progress,
  tell: (name: string) => void,
  signal: AbortSignal,
): Promise<void> {
  const ending = new AbortController()
  let failure: Error | null = null
  const cancel = clock.after(HANGS_MS, () => {
    failure ??= new ClusterFailure(0, 'the watch hung')
    ending.abort()
  })
  const asked = {
    ...{ labelSelector: OWN_OBJECTS, resourceVersion: progress.version, timeoutSeconds: WATCH_SECONDS },
    ...{ watch: true, allowWatchBookmarks: true },
  }
  const onLine = (line: string) => {
    if (failure !== null) return
    try {
      takeEvent(settings, progress, tell, line)
    } catch (error) {
      failure = error instanceof ClusterFailure ? error : new ClusterFailure(0, "a change that can't be read")
      ending.abort()
    }
  }
  try {
    const both = AbortSignal.any([signal, ending.signal])
    await cluster.follow((options) => cluster.core.listPodForAllNamespaces(asked, options), both, onLine)
  } catch (error) {
    throw failure ?? error
  } finally {
    cancel()
  }
  if (failure !== null) throw failure
}

function takeEvent(
  settings: KubernetesDriverSettings,
  progress: Progress,
  tell: (name: string) => void,
  line: string,
): void {
  const { type, object } = EventShape.parse(JSON.parse(line))
  if (type === 'ERROR') {
    const { code } = ErrorShape.parse(object)
    throw new ClusterFailure(code, `the watch ended with the status ${code}`)
  }
  progress.version = VersionedShape.parse(object).metadata.resourceVersion
  if (type === 'BOOKMARK') return
  const own = knownPod(settings, PodShape.parse(object))
  if (own === null || progress.known === null) return
  const before = progress.known.get(own.uid)
  if (type === 'DELETED') progress.known.delete(own.uid)
  else progress.known.set(own.uid, own)
  // One that is new has a state that is asked for anyway.
  if (type === 'DELETED' || (before !== undefined && before.state !== own.state)) tell(own.machine)
}

/** Null: it belongs to no machine of ours. */
function knownPod(settings: KubernetesDriverSettings, pod: PodSeen): (KnownPod & { readonly uid: string }) | null {
  const { uid, namespace } = pod.metadata
  const machine = machineOfObject(pod.metadata)
  if (typeof uid !== 'string' || machine === null || !isOwnNamespace(settings, namespace ?? '')) return null
  return { uid, machine, state: podState(pod) }
}
