/**
 * The driver `kubernetes` against a real kube-apiserver with a real etcd, with the rights that docs/instances.md prints and no others. There
 * are no nodes: the test sets the states of pods. Skipped where the programs are not found.
 */

import '../../../../test/kubernetesClient.ts'
import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { TurnedClock } from '../../../../test/clock.ts'
import { openInstanceHouse } from '../../../../test/instanceHouse.ts'
import { type PodStateName, testController } from '../../../../test/kubernetes/controller.ts'
import { declareDriverTests } from '../../../../test/kubernetes/driverSuite.ts'
import { findClusterPrograms, type RealCluster } from '../../../../test/kubernetes/realCluster.ts'
import { openRuledCluster } from '../../../../test/kubernetes/ruledCluster.ts'
import { clusterDriver, machineName, machineSpec, ORGANIZATION } from '../../../../test/kubernetes/stage.ts'
import { SILENCE } from '../../../../test/silence.ts'
import { systemClock } from '../../../infra/clock.ts'
import type { Clock } from '../../../lib/time.ts'
import { hearOfChanges } from '../../hear.ts'
import { driverNameOf } from '../../job/instance.ts'
import type { InstanceDriver } from '../driver.ts'

const programs = findClusterPrograms()
const stage = typeof programs === 'string' ? `a real cluster (skipped: ${programs})` : 'a real cluster'

const never = new AbortController().signal

describe.skipIf(typeof programs === 'string')(stage, () => {
  let cluster: RealCluster
  let driver: InstanceDriver
  beforeAll(async () => {
    if (typeof programs === 'string') return
    cluster = await openRuledCluster(programs)
    driver = await clusterDriver(cluster.kubeconfig)
  }, 180_000)
  afterAll(() => cluster?.stop())

  declareDriverTests(() => ({ admin: cluster.admin, driver }))

  test('the rights of the documentation are refused elsewhere', async () => {
    const gateway = cluster.gateway
    const allowed = `tollgate-${ORGANIZATION}`
    const namespace = (name: string, labels: object) => ({ metadata: { name, labels } })
    const baseline = { 'pod-security.kubernetes.io/enforce': 'baseline' }
    const service = { metadata: { name: 'x' }, spec: { ports: [{ port: 80 }] } }
    const statuses = [
      await gateway.status('GET', `/api/v1/namespaces/${allowed}/secrets`),
      await gateway.status('GET', '/api/v1/namespaces'),
      await gateway.status('POST', '/api/v1/namespaces', namespace('other', baseline)),
      await gateway.status('POST', '/api/v1/namespaces', namespace(`tollgate-${crypto.randomUUID()}`, {})),
      await gateway.status('POST', '/api/v1/namespaces/default/services', service),
      await gateway.status('DELETE', '/apis/apps/v1/namespaces/kube-system/deployments/other'),
      await gateway.status('DELETE', `/api/v1/namespaces/${allowed}`),
      await gateway.status('POST', '/api/v1/namespaces', namespace(`tollgate-${crypto.randomUUID()}`, baseline)),
    ]
    expect(statuses).toEqual([403, 403, 422, 422, 422, 404, 403, 201])
  })

  test('an instance lives and ends on it, and nothing of it is left', async () => {
    const clock = new TurnedClock(Date.UTC(2031, 4, 17, 13, 30))
    const house = await openInstanceHouse(clock)
    const controller = testController(cluster.admin)
    const means = house.process({ driver })
    const stop = hearOfChanges(means, () => {})
    try {
      const created = await house.create(await house.organization(10_000_000_000n))
      const name = driverNameOf(created.id)
      for (const [pod, state] of [
        [null, 'creating'],
        ['pullError', 'creating'],
        ['ready', 'running'],
      ] as const) {
        if (pod !== null) await controller.setPod(name, pod)
        await clock.turn(2_000)
        await house.work(means)
        await controller.step()
        expect((await house.find(created)).state).toBe(state)
      }
      await clock.turn(60_000)
      await controller.setPod(name, 'crashLoop')
      // The clock stands still: nothing but the watch has it asked about.
      while ((await house.find(created)).state === 'running') {
        await Bun.sleep(20)
        await house.work(means)
      }
      expect(await house.find(created)).toMatchObject({ state: 'terminating', reason: 'app_ended' })
      expect((await house.charged(created)).seconds).toBe(66)
      await house.work(means)
      await controller.step()
      await clock.turn(2_000)
      await house.work(means)
      expect((await house.find(created)).state).toBe('terminated')
      expect(await house.disagreements()).toEqual([])
      const selector = `labelSelector=tollgate.io/machine%3D${name}`
      for (const path of ['/apis/apps/v1/deployments', '/api/v1/services', '/api/v1/pods']) {
        expect((await cluster.admin.call<{ items: object[] }>('GET', `${path}?${selector}`)).items).toEqual([])
      }
    } finally {
      await stop()
      await house.drop()
    }
  })

  test('while it is slow or away nobody knows, and what was asked for is made once', async () => {
    const name = machineName()
    const hasty = await clusterDriver(cluster.kubeconfig, { timeoutMs: 1_000 })
    cluster.freeze()
    await expect(hasty.create(name, machineSpec(), never)).rejects.toThrow('took too long')
    cluster.thaw()
    await expect(hasty.create(name, machineSpec(), never)).resolves.toMatchObject({ name, state: 'creating' })
    await cluster.stopApi()
    await expect(hasty.status(name, never)).rejects.toThrow('could not be reached')
    await expect(hasty.list(never)).rejects.toThrow('could not be reached')
    await expect(hasty.delete(name, never)).rejects.toThrow('could not be reached')
    await cluster.startApi()
    expect((await hasty.list(never)).filter((each) => each.name === name).length).toBe(1)
  }, 120_000)

  test('a watch goes on after the API was away, from a new list where the changes are forgotten', async () => {
    const controller = testController(cluster.admin)
    const [first, changed, gone, same] = [machineName(), machineName(), machineName(), machineName()]
    for (const name of [first, changed, gone, same]) {
      await driver.create(name, machineSpec(), never)
      await controller.step()
      await controller.setPod(name, 'ready')
    }
    const held: (() => void)[] = []
    const after: Clock['after'] = (delayMs, callback) => {
      if (delayMs >= 10_000 || delayMs < 1_000) return systemClock.after(delayMs, callback)
      held.push(callback)
      return () => {}
    }
    const warnings: string[] = []
    const log = { ...SILENCE, warn: (_: object, words: string) => void warnings.push(words) }
    const other = await clusterDriver(cluster.kubeconfig, {}, { ...systemClock, after }, log)
    const stopping = new AbortController()
    const told = new Set<string>()
    const watching = other.watch?.((name) => told.add(name), stopping.signal)
    for (const state of alternating('crashLoop', 'ready')) {
      if (told.has(first)) break
      await controller.setPod(first, state)
      await Bun.sleep(50)
    }
    await cluster.stopApi()
    await until(() => held.length === 1)
    await cluster.startApi()
    await controller.setPod(changed, 'crashLoop')
    await controller.killPods(gone)
    await cluster.compact()
    // Its memory of changes begins with its start.
    await cluster.stopApi()
    await cluster.startApi()
    told.clear()
    held.shift()?.()
    await until(() => held.length === 1)
    expect([warnings.length, told.size]).toEqual([1, 0])
    held.shift()?.()
    await until(() => told.size >= 2)
    expect([...told].filter((name) => name !== first).toSorted()).toEqual([changed, gone].toSorted())
    await controller.setPod(same, 'crashLoop')
    await until(() => told.has(same))
    stopping.abort()
    await watching
  }, 120_000)
})

function* alternating(one: PodStateName, other: PodStateName): Generator<PodStateName> {
  for (;;) yield* [one, other]
}

async function until(condition: () => boolean): Promise<void> {
  while (!condition()) await Bun.sleep(10)
}
