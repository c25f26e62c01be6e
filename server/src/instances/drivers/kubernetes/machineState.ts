/** The state of a machine, as its objects tell it. */

import { z } from 'zod'
import type { MachineState } from '../driver.ts'
import { MACHINE_LABEL } from './machineObjects.ts'

const metadata = z.object({
  name: z.string(),
  namespace: z.string().nullish(),
  labels: z.record(z.string(), z.string()).nullish(),
  deletionTimestamp: z.unknown().optional(),
})

export const DeploymentShape = z.object({ metadata, spec: z.object({ replicas: z.number().nullish() }) })

export const ServiceShape = z.object({
  metadata,
  spec: z.object({ ports: z.array(z.object({ port: z.number() })).nullish() }),
})

const terminated = z.object({ exitCode: z.number() }).nullish()

const ContainerShape = z.object({
  restartCount: z.number(),
  state: z.object({ waiting: z.object({ reason: z.string().nullish() }).nullish(), terminated }).nullish(),
  lastState: z.object({ terminated }).nullish(),
})

export const PodShape = z.object({
  metadata: metadata.extend({ uid: z.string().nullish() }),
  status: z
    .object({
      phase: z.string().nullish(),
      conditions: z.array(z.object({ type: z.string(), status: z.string() })).nullish(),
      containerStatuses: z.array(ContainerShape).nullish(),
    })
    .nullish(),
})

type Metadata = z.infer<typeof metadata>
export type DeploymentSeen = z.infer<typeof DeploymentShape>
export type ServiceSeen = z.infer<typeof ServiceShape>
export type PodSeen = z.infer<typeof PodShape>

/** An app that ends as often, in one pod or as many pods, and is restarted each time, has ended. */
const ENDS_MOST = 3

/** Waiting for one of these never ends by itself. */
const HOPELESS = new Set(['InvalidImageName'])

/** The name of the machine that an object belongs to; null: to none. */
export function machineOfObject({ labels }: Metadata): string | null {
  return labels?.[MACHINE_LABEL] ?? null
}

/**
 * Returns the state of a machine that has a deployment. Without its service nobody reaches its app, and without a replica it has none:
 * both are the work of somebody else, and the app has ended.
 */
export function machineState(
  { metadata: { deletionTimestamp }, spec }: DeploymentSeen,
  service: ServiceSeen | null,
  pods: readonly PodSeen[],
): MachineState {
  if (isSet(deletionTimestamp) || service === null || spec.replicas === 0) return 'ended'
  const states = pods.filter(({ metadata }) => !isSet(metadata.deletionTimestamp)).map(podState)
  if (states.includes('running')) return 'running'
  if (states.includes('ended')) return 'ended'
  const failed = pods.filter(({ status }) => status?.phase === 'Failed').length
  return failed >= ENDS_MOST ? 'ended' : 'creating'
}

/** The state of a machine by one pod of it. Kubernetes replaces a failed pod, such as one of a node that is gone. */
export function podState({ status }: PodSeen): MachineState {
  const isReady = status?.conditions?.some(({ type, status: is }) => type === 'Ready' && is === 'True') ?? false
  if (isReady) return 'running'
  if (status?.phase === 'Failed') return 'creating'
  if (status?.phase === 'Succeeded') return 'ended'
  return (status?.containerStatuses ?? []).some(hasEnded) ? 'ended' : 'creating'
}

function hasEnded({ restartCount, state, lastState }: z.infer<typeof ContainerShape>): boolean {
  const reason = state?.waiting?.reason ?? ''
  const last = state?.terminated ?? lastState?.terminated
  if (HOPELESS.has(reason) || last?.exitCode === 0) return true
  return restartCount >= ENDS_MOST && (reason === 'CrashLoopBackOff' || isSet(state?.terminated))
}

const isSet = (value: unknown) => value !== undefined && value !== null
