/** The watch of pods: what is told, and how it is resumed. */

import '../../../../test/kubernetesClient.ts'
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'bun:test'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { TurnedClock } from '../../../../test/clock.ts'
import { testController } from '../../../../test/kubernetes/controller.ts'
import {
  type FakeCluster,
  fakeKubeconfig,
  startFakeCluster,
  statusAnswer,
} from '../../../../test/kubernetes/fakeCluster.ts'
import { clusterDriver, machineName, machineSpec } from '../../../../test/kubernetes/stage.ts'
import type { InstanceDriver } from '../driver.ts'

/** The deadlines of a request and of a watch, which are no pauses. */
const DEADLINES = [10_000, 270_000]

/** A turned clock that knows the pauses that are waited for. */
class PauseClock extends TurnedClock {
  readonly pauses: number[] = []

  override after(delayMs: number, callback: () => void): () => void {
    if (DEADLINES.includes(delayMs)) return super.after(delayMs, callback)
    this.pauses.push(delayMs)
    const over = () => void this.pauses.splice(this.pauses.indexOf(delayMs), 1)
    const cancel = super.after(delayMs, () => {
      over()
      callback()
    })
    return () => {
      if (this.pauses.includes(delayMs)) over()
      cancel()
    }
  }
}

const never = new AbortController().signal

let folder: string
let cluster: FakeCluster
let clock: PauseClock
let driver: InstanceDriver
let told: string[]
let stopping: AbortController
let watching: Promise<void>

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'tollgate-watch-'))
})
afterAll(() => rm(folder, { recursive: true }))
beforeEach(async () => {
  cluster = await startFakeCluster()
  const file = join(folder, 'kubeconfig')
  await writeFile(file, fakeKubeconfig(cluster))
  clock = new PauseClock()
  driver = await clusterDriver(file, {}, clock)
  told = []
  stopping = new AbortController()
  watching = Promise.resolve()
})
afterEach(async () => {
  stopping.abort()
  await watching
  expect(clock.pending).toBe(0)
  await cluster.stop()
})

/** A machine with a pod that answers. */
async function runningMachine(): Promise<string> {
  const name = machineName()
  await driver.create(name, machineSpec(), never)
  const controller = testController(cluster.admin)
  await controller.step()
  await controller.setPod(name, 'ready')
  return name
}

async function startWatch(): Promise<void> {
  watching = driver.watch?.((name) => told.push(name), stopping.signal) ?? Promise.reject(new Error('it has no watch'))
  await until(() => cluster.watches() === 1)
}

const watchesAsked = () => cluster.asked.filter(({ query }) => query.has('watch'))
const listsAsked = () => cluster.asked.filter(({ path, query }) => path === '/api/v1/pods' && !query.has('watch'))

async function until(condition: () => boolean): Promise<void> {
  while (!condition()) await new Promise((resolve) => setImmediate(resolve))
}

/** Waits until a pause has begun, and turns to its end. Gives its length. */
async function pass(): Promise<number> {
  await until(() => clock.pauses.length === 1)
  const [pauseMs = 0] = clock.pauses
  await clock.turn(pauseMs)
  return pauseMs
}

/** Passes the pause before the watch is resumed. */
async function resumed(): Promise<void> {
  await pass()
  await until(() => cluster.watches() === 1)
}

test('tells of changes of state, and not of what was there at first', async () => {
  const [name, other] = [await runningMachine(), await runningMachine()]
  const controller = testController(cluster.admin)
  await startWatch()
  await controller.setPod(name, 'crashLoop')
  await until(() => told.length === 1)
  await controller.setPod(other, 'ready')
  await controller.killPods(other)
  await until(() => told.length === 2)
  expect(told).toEqual([name, other])
})

test('goes on from the last change after the connection has ended', async () => {
  const name = await runningMachine()
  await startWatch()
  const [first] = watchesAsked()
  cluster.endWatches()
  await until(() => cluster.watches() === 0)
  await testController(cluster.admin).setPod(name, 'crashLoop')
  await resumed()
  await until(() => told.length === 1)
  const second = watchesAsked().at(-1)
  expect(second?.query.get('resourceVersion')).toBe(first?.query.get('resourceVersion') ?? '')
  expect([told, listsAsked().length]).toEqual([[name], 1])
})

test('begins with a new list where the changes are forgotten, and tells what they were', async () => {
  const [changed, gone, same] = [await runningMachine(), await runningMachine(), await runningMachine()]
  const controller = testController(cluster.admin)
  await startWatch()
  cluster.endWatches()
  await until(() => cluster.watches() === 0)
  await controller.setPod(changed, 'crashLoop')
  await controller.killPods(gone)
  cluster.forget()
  // The API says that the version is gone; a list follows after another pause.
  expect([await pass(), await pass()]).toEqual([1_000, 2_000])
  await until(() => cluster.watches() === 1)
  expect(told.toSorted()).toEqual([changed, gone].toSorted())
  expect(told).not.toContain(same)
  expect(listsAsked().length).toBe(2)
})

test('begins with a new list where the status says that they are forgotten', async () => {
  await startWatch()
  cluster.fault = ({ query }) => (query.has('watch') ? statusAnswer(410, 'Gone', 'too old') : null)
  cluster.endWatches()
  await pass()
  await until(() => clock.pauses.length === 1)
  cluster.fault = () => null
  await pass()
  await until(() => cluster.watches() === 1)
  expect(listsAsked().length).toBe(2)
})

test.each([
  ['that is no JSON', 'oops\n'],
  ['of another form', '{"type": "OTHER", "object": {}}\n'],
  ['without a version', '{"type": "MODIFIED", "object": {"metadata": {}}}\n'],
  ['that tells of an error', '{"type": "ERROR", "object": {"code": 500}}\n'],
])('is resumed after a line %s', async (_name, line) => {
  const name = await runningMachine()
  await startWatch()
  cluster.endWatches(line)
  await resumed()
  await testController(cluster.admin).setPod(name, 'crashLoop')
  await until(() => told.length === 1)
  expect(told).toEqual([name])
})

test('is asked for less and less often while it is refused, and never more than once a minute then', async () => {
  cluster.fault = ({ query }) => (query.has('watch') ? statusAnswer(403, 'Forbidden', 'no') : null)
  watching = driver.watch?.((name) => told.push(name), stopping.signal) ?? Promise.resolve()
  const pauses: number[] = []
  while (pauses.length < 8) pauses.push(await pass())
  expect(pauses.map((pauseMs) => pauseMs / 1_000)).toEqual([1, 2, 4, 8, 16, 32, 60, 60])
  expect(listsAsked().length).toBe(1)
})

test('is resumed where it hangs', async () => {
  await startWatch()
  expect(watchesAsked()[0]?.query.get('timeoutSeconds')).toBe('240')
  await clock.turn(270_000)
  await pass()
  await until(() => watchesAsked().length === 2)
})
