/**
 * The part of controllers, nodes and people: the changes that they make to the objects of a machine when a test says
 * so.
 */

import type { ApiClient } from './apiClient.ts'

const MERGE = 'application/merge-patch+json'

interface Seen {
  metadata: { name: string; namespace: string; deletionTimestamp?: string; labels?: Record<string, string> }
}
interface DeploymentSeen extends Seen {
  spec: { template: { metadata: object; spec: object } }
}
interface QuotaSeen extends Seen {
  spec: { hard: Record<string, string> }
  status?: { hard?: Record<string, string> }
}

/** States of a pod, as a node reports them. */
export const POD_STATES = {
  unscheduled: {
    phase: 'Pending',
    conditions: [
      { type: 'PodScheduled', status: 'False', reason: 'Unschedulable', message: 'Insufficient nvidia.com/gpu' },
    ],
  },
  starting: { phase: 'Pending', containerStatuses: [waiting('ContainerCreating', 0)] },
  pullError: { phase: 'Pending', containerStatuses: [waiting('ImagePullBackOff', 0)] },
  invalidImage: { phase: 'Pending', containerStatuses: [waiting('InvalidImageName', 0)] },
  notReady: {
    phase: 'Running',
    conditions: [{ type: 'Ready', status: 'False' }],
    containerStatuses: [container(0, { running: { startedAt: '2026-01-01T00:00:00Z' } })],
  },
  ready: {
    phase: 'Running',
    conditions: [{ type: 'Ready', status: 'True' }],
    containerStatuses: [{ ...container(0, { running: { startedAt: '2026-01-01T00:00:00Z' } }), ready: true }],
  },
  crashedOnce: {
    phase: 'Running',
    conditions: [{ type: 'Ready', status: 'False' }],
    containerStatuses: [{ ...waiting('CrashLoopBackOff', 1), lastState: terminated(1) }],
  },
  crashLoop: {
    phase: 'Running',
    conditions: [{ type: 'Ready', status: 'False' }],
    containerStatuses: [{ ...waiting('CrashLoopBackOff', 3), lastState: terminated(137) }],
  },
  completed: {
    phase: 'Running',
    conditions: [{ type: 'Ready', status: 'False' }],
    containerStatuses: [{ ...waiting('CrashLoopBackOff', 1), lastState: terminated(0) }],
  },
  failed: { phase: 'Failed', reason: 'Evicted', message: 'The node was low on resource: memory.' },
} as const satisfies Record<string, object>

export type PodStateName = keyof typeof POD_STATES

function container(restartCount: number, state: object) {
  return { name: 'app', image: 'x', imageID: '', ready: false, restartCount, state, lastState: {} }
}

function waiting(reason: string, restartCount: number) {
  return container(restartCount, { waiting: { reason } })
}

function terminated(exitCode: number): object {
  return { terminated: { exitCode, reason: exitCode === 0 ? 'Completed' : 'Error' } }
}

export interface TestController {
  /** Does once what controllers do: pods of deployments, the ends of deletions. */
  step(): Promise<void>
  /** Sets the state of a machine's newest pod. */
  setPod(name: string, state: PodStateName): Promise<void>
  /** Deletes all pods of a machine. */
  killPods(name: string): Promise<void>
  /** A further pod of a machine, as after the first has failed. */
  addPod(name: string): Promise<void>
  /** Counts quotas, as the cluster does a moment after they are made. */
  countQuotas(): Promise<void>
}

export function testController(admin: ApiClient): TestController {
  const all = async <T extends Seen>(path: string) => (await admin.call<{ items: T[] }>('GET', path)).items
  const deployments = () => all<DeploymentSeen>('/apis/apps/v1/deployments')
  const podsOf = async (name: string) =>
    (await all('/api/v1/pods')).filter(({ metadata }) => metadata.labels?.['tollgate.io/machine'] === name)
  let made = 0
  const makePod = async ({ metadata: { name, namespace }, spec: { template } }: DeploymentSeen) => {
    made += 1
    await admin.call('POST', `/api/v1/namespaces/${namespace}/pods`, {
      ...{ apiVersion: 'v1', kind: 'Pod' },
      metadata: { ...template.metadata, name: `${name}-${made}` },
      spec: template.spec,
    })
  }
  const find = async (name: string) => {
    const found = (await deployments()).find(({ metadata }) => metadata.name === name)
    if (found === undefined) throw new Error(`there is no deployment ${name}`)
    return found
  }
  const killPods = async (name: string) => {
    for (const { metadata } of await podsOf(name)) {
      const at = `/api/v1/namespaces/${metadata.namespace}/pods/${metadata.name}`
      await admin.call('DELETE', at, { gracePeriodSeconds: 0 })
    }
  }
  const finish = async ({ metadata: { name, namespace } }: DeploymentSeen) => {
    await killPods(name)
    const at = `/apis/apps/v1/namespaces/${namespace}/deployments/${name}`
    await admin.call('PATCH', at, { metadata: { finalizers: null } }, MERGE)
  }
  return {
    async step() {
      for (const each of await deployments()) {
        if (each.metadata.deletionTimestamp !== undefined) await finish(each)
        else if ((await podsOf(each.metadata.name)).length === 0) await makePod(each)
      }
    },
    async setPod(name, state) {
      const pod = (await podsOf(name)).at(-1)
      if (pod === undefined) throw new Error(`${name} has no pod`)
      const at = `/api/v1/namespaces/${pod.metadata.namespace}/pods/${pod.metadata.name}/status`
      // Fields that this state does not have are those of the one before.
      const none = { phase: 'Pending', conditions: null, containerStatuses: null }
      await admin.call('PATCH', at, { status: { ...none, ...POD_STATES[state] } }, MERGE)
    },
    killPods,
    addPod: async (name) => makePod(await find(name)),
    async countQuotas() {
      for (const { metadata, spec, status } of await all<QuotaSeen>('/api/v1/resourcequotas')) {
        if (status?.hard !== undefined) continue
        const at = `/api/v1/namespaces/${metadata.namespace}/resourcequotas/${metadata.name}/status`
        const used = Object.fromEntries(Object.keys(spec.hard).map((key) => [key, '0']))
        await admin.call('PATCH', at, { status: { hard: spec.hard, used } }, MERGE)
      }
    },
  }
}
