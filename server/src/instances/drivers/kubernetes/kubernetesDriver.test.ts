/** The driver `kubernetes` by the official client, against a fake of the API at the wire. */

import '../../../../test/kubernetesClient.ts'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'bun:test'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { certificateFor } from '../../../../test/certificate.ts'
import { TurnedClock } from '../../../../test/clock.ts'
import { freePort } from '../../../../test/freePort.ts'
import { declareDriverTests } from '../../../../test/kubernetes/driverSuite.ts'
import {
  type FakeCluster,
  fakeKubeconfig,
  OWN_TOKEN_OF_FAKE,
  startFakeCluster,
  statusAnswer,
} from '../../../../test/kubernetes/fakeCluster.ts'
import { CLUSTER_SETTINGS, clusterDriver, machineName, machineSpec } from '../../../../test/kubernetes/stage.ts'
import type { Clock } from '../../../lib/time.ts'
import { CreateRefused, type InstanceDriver } from '../driver.ts'

const never = new AbortController().signal

let folder: string
let kubeconfig: string
let cluster: FakeCluster
let driver: InstanceDriver
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'tollgate-kubernetes-'))
  cluster = await startFakeCluster()
  kubeconfig = join(folder, 'kubeconfig')
  await writeFile(kubeconfig, fakeKubeconfig(cluster))
  driver = await clusterDriver(kubeconfig)
})
afterAll(async () => {
  await cluster.stop()
  await rm(folder, { recursive: true })
})
beforeEach(() => {
  cluster.fault = () => null
  cluster.asked.length = 0
})

declareDriverTests(() => ({ admin: cluster.admin, driver }))

describe('where the cluster gives no answer, nobody knows', () => {
  const status = (code: number, reason = 'Reason') => statusAnswer(code, reason, `said with ${code}`)
  test.each<[string, () => Response | Promise<Response>, number]>([
    ['it forbids it', () => status(403, 'Forbidden'), 1],
    ['it does not know the gateway', () => status(401, 'Unauthorized'), 1],
    ['it is busy', () => status(429, 'TooManyRequests'), 3],
    ['it fails', () => status(500, 'InternalError'), 3],
    ['a proxy before it fails', () => new Response('<html>bad gateway</html>', { status: 502 }), 3],
    ['it sends elsewhere', () => Response.redirect('https://localhost:1/', 302), 1],
    ['it is no API', () => new Response('<html>hello</html>'), 1],
    ['it gives another form', () => Response.json({ kind: 'Other' }), 1],
  ])('%s', async (_name, fault, asked) => {
    const clock = hastyClock()
    const other = await clusterDriver(kubeconfig, {}, clock)
    cluster.fault = fault
    for (const ask of [() => other.status(machineName(), never), () => other.list(never)]) {
      ;[cluster.asked.length, clock.pauses.length] = [0, 0]
      const failure = await failureOf(ask())
      expect(cluster.asked.length).toBe(asked)
      expect(clock.pauses).toEqual([500, 1_000].slice(0, asked - 1))
      expect(String(failure.stack)).not.toContain(OWN_TOKEN_OF_FAKE)
    }
    const failure = await failureOf(other.create(machineName(), machineSpec(), never))
    expect(failure).not.toBeInstanceOf(CreateRefused)
  })

  test('it is away', async () => {
    const server = `https://localhost:${await freePort()}`
    const file = join(folder, 'away')
    await writeFile(file, fakeKubeconfig({ ...cluster, server }))
    const other = await clusterDriver(file, {}, hastyClock())
    const failure = await failureOf(other.status(machineName(), never))
    expect(String(failure)).toContain('could not be reached')
    expect(String(failure)).not.toContain(OWN_TOKEN_OF_FAKE)
  })

  test('it has another certificate than that of the kubeconfig', async () => {
    const file = join(folder, 'certificate')
    const { cert: ca } = await certificateFor('localhost')
    await writeFile(file, fakeKubeconfig({ ...cluster, ca }))
    const other = await clusterDriver(file, {}, hastyClock())
    expect(String(await failureOf(other.list(never)))).toContain('could not be reached')
    expect(cluster.asked).toEqual([])
  })

  test('it is slow, and is asked three times for as long as the settings say', async () => {
    const clock = new TurnedClock()
    const other = await clusterDriver(kubeconfig, {}, clock)
    cluster.fault = () => new Promise(() => {})
    const failing = failureOf(other.status(machineName(), never))
    for (const [asked, pauseMs] of [
      [1, 500],
      [2, 1_000],
      [3, 0],
    ] as const) {
      while (cluster.asked.length < asked) await new Promise((resolve) => setImmediate(resolve))
      await clock.turn(9_999)
      expect(cluster.asked.length).toBe(asked)
      await clock.turn(1)
      while (pauseMs > 0 && clock.pending === 0) await new Promise((resolve) => setImmediate(resolve))
      await clock.turn(pauseMs)
    }
    expect(String(await failing)).toContain('took too long')
    expect([cluster.asked.length, clock.pending]).toEqual([3, 0])
  })

  test('the work is given up', async () => {
    const giving = new AbortController()
    cluster.fault = () => new Promise(() => giving.abort())
    await expect(driver.status(machineName(), giving.signal)).rejects.toThrow()
    expect(cluster.asked.length).toBe(1)
  })
})

describe('an answer that comes in the end is taken', () => {
  const overloaded = statusAnswer(429, 'TooManyRequests', 'wait', { 'retry-after': '2' })
  const uncounted = statusAnswer(403, 'Forbidden', 'pods is forbidden: status unknown for quota: tollgate')
  test.each<[string, Response, number]>([
    ['after the cluster was busy', overloaded, 2_000],
    ['after it asked for an hour', statusAnswer(429, 'TooManyRequests', 'wait', { 'retry-after': '3600' }), 5_000],
    ['after the quota was counted', uncounted, 500],
    ['after a failure', statusAnswer(503, 'ServiceUnavailable', 'starting'), 500],
  ])('%s', async (_name, first, pauseMs) => {
    const clock = hastyClock()
    const other = await clusterDriver(kubeconfig, {}, clock)
    let failures = 0
    cluster.fault = ({ path, method }) => {
      if (method !== 'POST' || !path.endsWith('/deployments') || failures > 0) return null
      failures += 1
      return first.clone()
    }
    const name = machineName()
    expect(await other.create(name, machineSpec(), never)).toMatchObject({ name, state: 'creating' })
    expect([failures, clock.pauses]).toEqual([1, [pauseMs]])
  })

  test('where the first answer was lost, and the machine is there', async () => {
    const other = await clusterDriver(kubeconfig, {}, hastyClock())
    const name = machineName()
    await driver.create(name, machineSpec(), never)
    let failures = 0
    cluster.fault = ({ path, method }) => {
      if (method !== 'POST' || !path.endsWith('/deployments') || failures > 0) return null
      failures += 1
      return statusAnswer(504, 'Timeout', 'timed out')
    }
    expect(await other.create(name, machineSpec(), never)).toMatchObject({ name, state: 'creating' })
    expect((await driver.list(never)).filter((each) => each.name === name).length).toBe(1)
  })
})

test('a machine that the cluster finds invalid is refused for good', async () => {
  cluster.fault = ({ method, path }) =>
    method === 'POST' && path.endsWith('/services') ? statusAnswer(422, 'Invalid', 'spec.ports: Invalid value') : null
  const failure = await driver.create(machineName(), machineSpec(), never).catch((error: unknown) => error)
  expect(failure).toBeInstanceOf(CreateRefused)
})

test('a list has all pages, and begins anew where the cluster has forgotten it', async () => {
  const before = (await driver.list(never)).length
  const names = Array.from({ length: 300 }, machineName)
  for (const name of names) await driver.create(name, machineSpec(), never)
  let forgotten = 0
  cluster.fault = ({ query, path }) => {
    if (!query.has('continue') || !path.endsWith('/deployments') || forgotten > 0) return null
    forgotten += 1
    return statusAnswer(410, 'Expired', 'The provided continue parameter is too old')
  }
  cluster.asked.length = 0
  const listed = await driver.list(never)
  expect([listed.length, new Set(listed.map(({ name }) => name)).size]).toEqual([before + 300, before + 300])
  expect(forgotten).toBe(1)
  const limits = new Set(cluster.asked.map(({ query }) => query.get('limit')))
  expect([...limits]).toEqual(['250'])
})

describe('a kubeconfig is refused', () => {
  const good = () => JSON.parse(fakeKubeconfig(cluster))
  test.each<[string, (config: ReturnType<typeof good>) => unknown, string]>([
    ['that starts a program', (config) => (config.users[0].user = { exec: { command: '/bin/aws' } }), 'no exec'],
    ['with a password', (config) => (config.users[0].user = { username: 'a', password: 'hunter2' }), 'or password'],
    ['without TLS', (config) => (config.clusters[0].cluster.server = 'http://localhost:1'), 'an https server'],
    [
      'that trusts everybody',
      (config) => (config.clusters[0].cluster['insecure-skip-tls-verify'] = true),
      'certificate-authority in place',
    ],
    ['with a proxy', (config) => (config.clusters[0].cluster['proxy-url'] = 'http://p'), 'no proxy-url'],
    ['without a cluster', (config) => (config['current-context'] = 'other'), "for the context 'other'"],
  ])('%s', async (_name, change, says) => {
    const config = good()
    change(config)
    const file = join(folder, 'unfit')
    await writeFile(file, JSON.stringify(config))
    const failure = await clusterDriver(file).catch((error: unknown) => error)
    expect(String(failure)).toContain(says)
    expect(String(failure)).not.toContain('hunter2')
  })

  test.each([
    ['that is not there', null],
    ['that is no YAML', 'token: [hunter2'],
  ])('%s', async (_name, text) => {
    const file = join(folder, 'broken')
    await rm(file, { force: true })
    if (text !== null) await writeFile(file, text)
    const failure = await clusterDriver(file).catch((error: unknown) => error)
    expect(String(failure)).toContain("can't read the kubeconfig")
    expect(String(failure)).not.toContain('hunter2')
  })

  test('that is left out, where there is no service account', async () => {
    await expect(clusterDriver(null)).rejects.toThrow("needs 'kubeconfig'")
  })
})

/** A clock by which no answer is ever late, and whose pauses are over at once: they are kept. */
function hastyClock(): Clock & { readonly pauses: number[] } {
  const pauses: number[] = []
  return {
    pauses,
    ...{ now: () => 0, monotonicMs: () => 0 },
    after(delayMs, callback) {
      if (delayMs === CLUSTER_SETTINGS.timeoutMs) return () => {}
      pauses.push(delayMs)
      setImmediate(callback)
      return () => {}
    },
  }
}

/** The failure of work that must fail. */
async function failureOf(work: Promise<unknown>): Promise<Error> {
  const failure = await work.then(
    () => null,
    (error: unknown) => error,
  )
  if (!(failure instanceof Error)) throw new Error('it did not fail')
  return failure
}
