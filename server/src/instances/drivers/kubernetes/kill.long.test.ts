/**
 * SIGKILL of a process at every step of create, bill and delete, and after each request that changes something, with the driver
 * `kubernetes` against a real kube-apiserver; then another process goes on: nothing is lost, made twice or charged twice. And one that is
 * stopped for minutes. Skipped where the programs are not found.
 */

import '../../../../test/kubernetesClient.ts'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'bun:test'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { TurnedClock } from '../../../../test/clock.ts'
import type { ClusterRequest } from '../../../../test/faults/clusterRequest.ts'
import { type InstanceHouse, openInstanceHouse } from '../../../../test/instanceHouse.ts'
import { GPU_HOUR_MICROCENTS } from '../../../../test/instanceProcess.ts'
import { type TestController, testController } from '../../../../test/kubernetes/controller.ts'
import { findClusterPrograms, type GatewayChange, type RealCluster } from '../../../../test/kubernetes/realCluster.ts'
import { openRuledCluster } from '../../../../test/kubernetes/ruledCluster.ts'
import { clusterDriver } from '../../../../test/kubernetes/stage.ts'
import { SILENCE } from '../../../../test/silence.ts'
import { priceInstanceLife } from '../../../billing/charges/pricing.ts'
import { SECOND_MS } from '../../../lib/time.ts'
import type { InstanceDependencies, InstanceStep } from '../../job/dependencies.ts'
import { driverNameOf, type Instance } from '../../job/instance.ts'
import { reconcileMachines } from '../../reconcile.ts'

const WORKER = join(import.meta.dirname, '../../../../test/faults/instanceWorker.ts')
const CENT = 1_000_000n

type Task = 'create' | 'work' | 'delete'

/** The state before the process that dies begins. */
type Before =
  | 'nothing'
  | 'accepted'
  | 'a ready pod'
  | 'a minute to bill'
  | 'running'
  | 'deletion accepted'
  | 'pods gone'

/** Where the process dies, its task, what there is before, and in how many seconds after its creation the instance ends. */
const PLACES: readonly (readonly [InstanceStep | ClusterRequest, Task, Before, number | null])[] = [
  ['accepting', 'create', 'nothing', null],
  ['accepted', 'create', 'nothing', 240],
  ['taken', 'work', 'accepted', 240],
  ['started', 'work', 'accepted', 240],
  ['POST namespaces', 'work', 'accepted', 240],
  ['PATCH networkpolicies', 'work', 'accepted', 240],
  ['PATCH resourcequotas', 'work', 'accepted', 240],
  ['POST services', 'work', 'accepted', 240],
  ['POST deployments', 'work', 'accepted', 240],
  ['made', 'work', 'accepted', 240],
  ['running', 'work', 'a ready pod', 240],
  ['charging', 'work', 'a minute to bill', 240],
  ['charged', 'work', 'a minute to bill', 240],
  ['terminating', 'delete', 'running', 240],
  ['terminated', 'delete', 'running', 120],
  ['DELETE deployments', 'work', 'deletion accepted', 120],
  ['DELETE services', 'work', 'deletion accepted', 120],
  ['removed', 'work', 'deletion accepted', 120],
  ['finished', 'work', 'pods gone', 120],
]

const programs = findClusterPrograms()
const stage = typeof programs === 'string' ? `on a real cluster (skipped: ${programs})` : 'on a real cluster'

describe.skipIf(typeof programs === 'string')(stage, () => {
  const clock = new TurnedClock(Date.UTC(2031, 4, 17, 13, 30, 7, 300))
  const errors: string[] = []
  let cluster: RealCluster
  let controller: TestController
  let house: InstanceHouse
  let other: InstanceDependencies
  beforeAll(async () => {
    if (typeof programs === 'string') return
    cluster = await openRuledCluster(programs)
    controller = testController(cluster.admin)
    house = await openInstanceHouse(clock)
    const log = { ...SILENCE, error: (_: object, words: string) => void errors.push(words) }
    other = house.process({ driver: await clusterDriver(cluster.kubeconfig), log })
  }, 180_000)
  afterAll(async () => {
    await house?.drop()
    await cluster?.stop()
  })
  beforeEach(() => {
    errors.length = 0
  })

  test.each(PLACES)(
    'killed at "%s" of %s',
    async (place, task, before, seconds) => {
      const organization = await house.organization(1_000n * CENT)
      if (before === 'nothing') await dieAt(place, task, organization)
      else await house.create(organization)
      const instance = await instanceOf(organization)
      if (seconds === null || instance === null) {
        expect([seconds, instance]).toEqual([null, null])
        expect(await house.disagreements()).toEqual([])
        return
      }
      await prepare(before, instance)
      if (before !== 'nothing') await dieAt(place, task, organization, instance.id)
      await live(instance, seconds - (clock.now() - instance.createdAtMs) / SECOND_MS)
      if (seconds === 240) await house.delete(instance, other)
      await live(instance, 180)
      await expectOver(instance, seconds)
    },
    120_000,
  )

  test('one that stood still while it made a machine, until that was deleted, leaves none that stays, and nobody pays for it', async () => {
    const organization = await house.organization(1_000n * CENT)
    const instance = await house.create(organization)
    const slow = work('before POST deployments', 'work', organization, instance.id)
    while (!(await isStopped(slow.pid))) await Bun.sleep(20)
    await live(instance, 240)
    await house.delete(instance, other)
    await live(instance, 180)
    await expectOver(instance, 240)
    slow.kill('SIGCONT')
    expect(await slow.exited).toBe(0)
    expect((await madeOf(instance)).map(({ resource }) => resource)).toEqual(['services', 'deployments', 'deployments'])
    await live(instance, 180)
    expect(errors).toEqual([expect.stringContaining('machines run that nobody is billed for')])
    errors.length = 0
    await expectOver(instance, 240, ['services', 'deployments', 'deployments'])
  }, 120_000)

  function work(place: string, task: Task, organizationId: string, id: string) {
    const words = [house.url, `${clock.now()}`, place, task, organizationId, id, cluster.kubeconfig]
    return Bun.spawn([process.execPath, WORKER, ...words], { stdout: 'inherit', stderr: 'inherit' })
  }

  async function isStopped(pid: number): Promise<boolean> {
    return /^State:\s+T/m.test(await readFile(`/proc/${pid}/status`, 'utf8'))
  }

  async function dieAt(place: string, task: Task, organizationId: string, id = ''): Promise<void> {
    const child = work(place, task, organizationId, id)
    await child.exited
    expect(child.signalCode).toBe('SIGKILL')
  }

  async function instanceOf(organizationId: string): Promise<Instance | null> {
    const rows = await house.database.query<{ id: string }>(
      'select id from instances where organization_id = $1::uuid',
      [organizationId],
    )
    return rows[0] === undefined ? null : house.find({ id: rows[0].id, organizationId })
  }

  async function prepare(before: Before, instance: Instance): Promise<void> {
    if (before === 'nothing' || before === 'accepted') return
    if (before === 'a ready pod') {
      await house.work(other)
      await runPods(instance)
      return clock.turn(2 * SECOND_MS)
    }
    await live(instance, before === 'a minute to bill' ? 50 : 120)
    if (before === 'a minute to bill') return clock.turn(10 * SECOND_MS)
    if (before === 'running') return
    await house.delete(instance, other)
    if (before === 'deletion accepted') return
    await house.work(other)
    await runPods(instance)
    await clock.turn(2 * SECOND_MS)
  }

  /** Another process takes over after half a minute. Lists are compared each minute. */
  async function live(instance: Instance, seconds: number): Promise<void> {
    for (let left = seconds; left > 0; left -= 10) {
      await clock.turn(Math.min(left, 10) * SECOND_MS)
      await house.work(other)
      await runPods(instance)
      await reconcileMachines(other, () => false)
    }
  }

  /** Does what a cluster does by itself: makes pods, has them answer, and ends those of deployments that are deleted. */
  async function runPods({ id }: Instance): Promise<void> {
    // The quota of a new namespace refuses pods until it is counted.
    const hasStepped = () =>
      controller.step().then(
        () => true,
        () => false,
      )
    while (!(await hasStepped())) await Bun.sleep(20)
    const machine = await other.driver.status(driverNameOf(id), new AbortController().signal)
    if (machine?.state === 'creating') await controller.setPod(machine.name, 'ready')
  }

  /** The state of an instance in the gateway's books. */
  async function madeOf({ id }: Instance): Promise<GatewayChange[]> {
    const isMade = ({ name, verb, status }: GatewayChange) =>
      name === driverNameOf(id) && verb === 'create' && status === 201
    return (await cluster.changes()).filter(isMade)
  }

  async function expectOver(instance: Instance, seconds: number, kinds = ['services', 'deployments']): Promise<void> {
    const { id, organizationId } = instance
    const cost = priceInstanceLife(GPU_HOUR_MICROCENTS, seconds)
    expect(await house.charged(instance)).toMatchObject({ seconds, microcents: cost })
    expect(await house.spent(organizationId)).toMatchObject({ microcents: cost })
    expect(await house.find({ id, organizationId })).toMatchObject({ state: 'terminated', reason: 'deleted' })
    expect(await house.events(instance)).toEqual([
      'instance.creating creating',
      'instance.running running',
      'instance.terminated terminated',
    ])
    for (const { state } of await house.operations(instance)) expect(state).toBe('succeeded')
    expect(await house.disagreements()).toEqual([])
    const name = driverNameOf(id)
    expect((await madeOf(instance)).map(({ resource }) => resource)).toEqual(kinds)
    for (const path of ['/apis/apps/v1/deployments', '/api/v1/services', '/api/v1/pods']) {
      const selector = `labelSelector=tollgate.io/machine%3D${name}`
      expect((await cluster.admin.call<{ items: object[] }>('GET', `${path}?${selector}`)).items).toEqual([])
    }
    const namespace = `namespaces/tollgate-${organizationId}`
    for (const path of [
      `/api/v1/${namespace}/resourcequotas/tollgate`,
      `/apis/networking.k8s.io/v1/${namespace}/networkpolicies/tollgate`,
    ]) {
      expect(await cluster.admin.status('GET', path)).toBe(200)
    }
    expect(errors).toEqual([])
  }
})
