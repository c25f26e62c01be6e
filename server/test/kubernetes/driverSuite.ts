/** The guarantees of the driver, on a fake of the API and on a real one. */

import { expect, test } from 'bun:test'
import { CreateRefused, type InstanceDriver } from '../../src/instances/drivers/driver.ts'
import type { ApiClient } from './apiClient.ts'
import { type PodStateName, testController } from './controller.ts'
import { machineName, machineSpec, ORGANIZATION } from './stage.ts'

export interface SuiteStage {
  readonly admin: ApiClient
  readonly driver: InstanceDriver
}

const never = new AbortController().signal
const NAMESPACE = `tollgate-${ORGANIZATION}`

interface Kept {
  metadata: { name: string; uid: string; labels: Record<string, string> }
  spec: Record<string, unknown>
}

/** Declares the tests. The stage is there when the first of them runs. */
export function declareDriverTests(stage: () => SuiteStage): void {
  declareStateTests(stage)
  declareDeletionTests(stage)
  declareHandTests(stage)
  declareRefusalTests(stage)
  declareObjectTests(stage)

  test('one that is made twice is made once, by its name', async () => {
    const { driver, admin } = stage()
    const name = machineName()
    const first = await driver.create(name, machineSpec(), never)
    expect(first).toEqual({
      name,
      state: 'creating',
      appUrl: `http://${name}.${NAMESPACE}.svc:8080`,
      terminalUrl: null,
    })
    const before = await deploymentOf(admin, name)
    expect(await driver.create(name, machineSpec({ gpuCount: 4 }), never)).toEqual(first)
    const after = await deploymentOf(admin, name)
    expect([after.metadata.uid, after.spec]).toEqual([before.metadata.uid, before.spec])
    const both = await Promise.all([1, 2].map(() => driver.create(machineName(), machineSpec(), never)))
    expect(both.map(({ state }) => state)).toEqual(['creating', 'creating'])
  })
}

function declareObjectTests(stage: () => SuiteStage): void {
  test('each organization has a namespace with a quota and a policy', async () => {
    const { driver, admin } = stage()
    const organizationId = crypto.randomUUID()
    const name = machineName()
    await driver.create(name, machineSpec({ organizationId }), never)
    const namespace = `tollgate-${organizationId}`
    const quota = await admin.call<Kept>('GET', `/api/v1/namespaces/${namespace}/resourcequotas/tollgate`)
    expect(quota.spec['hard']).toMatchObject({
      pods: '40',
      'requests.nvidia.com/gpu': '160',
      'services.nodeports': '0',
    })
    const policies = `/apis/networking.k8s.io/v1/namespaces/${namespace}/networkpolicies/tollgate`
    const policy = await admin.call<Kept>('GET', policies)
    expect(policy.spec).toMatchObject({
      podSelector: {},
      policyTypes: ['Ingress', 'Egress'],
      ingress: [
        {
          from: [
            {
              namespaceSelector: {
                matchExpressions: [{ key: 'kubernetes.io/metadata.name', operator: 'In', values: ['tollgate'] }],
              },
            },
          ],
        },
      ],
    })
    expect((await deploymentOf(admin, name, namespace)).metadata.name).toBe(name)
  })

  test("a customer's words are values, of no label, no name and no shell", async () => {
    const { driver, admin } = stage()
    const name = machineName()
    const model = "a'; touch /x; $(PORT) `id` {port} $&"
    await driver.create(name, machineSpec({ model, command: ['/bin/server', '--model={model}', '{port}'] }), never)
    const { spec, metadata } = await deploymentOf(admin, name)
    const { spec: pod } = spec['template'] as { spec: { containers: { command: string[]; env: object[] }[] } & object }
    const escaped = "a'; touch /x; $$(PORT) `id` {port} $$&"
    expect(pod.containers[0]?.command).toEqual(['/bin/server', `--model=${escaped}`, '8080'])
    expect(pod.containers[0]?.env).toEqual([
      { name: 'PORT', value: '8080' },
      { name: 'MODEL', value: escaped },
    ])
    expect(metadata.labels).toEqual({ 'app.kubernetes.io/managed-by': 'tollgate', 'tollgate.io/machine': name })
    expect(pod).toMatchObject({
      ...{ automountServiceAccountToken: false, nodeSelector: { 'nvidia.com/gpu.product': 'NVIDIA-A100' } },
      containers: [
        {
          resources: { limits: { 'nvidia.com/gpu': '2', cpu: '8', 'ephemeral-storage': '10G' } },
          securityContext: { allowPrivilegeEscalation: false, capabilities: { drop: ['ALL'] } },
        },
      ],
    })
  })
}

function declareRefusalTests(stage: () => SuiteStage): void {
  test('one that can never be made is refused for good', async () => {
    const { driver } = stage()
    const withoutModel = machineSpec({ command: ['/bin/server', '{model}'] })
    for (const spec of [machineSpec({ gpuType: 'other' }), machineSpec({ image: null }), withoutModel]) {
      const failure = await driver.create(machineName(), spec, never).catch((error: unknown) => error)
      expect(failure).toBeInstanceOf(CreateRefused)
    }
    await expect(driver.create('../../other', machineSpec(), never)).rejects.toThrow('none of ours')
    await expect(driver.status('kube-system', never)).rejects.toThrow('none of ours')
  })

  test('nothing is made in a namespace that is somebody else’s', async () => {
    const { driver, admin } = stage()
    const organizationId = crypto.randomUUID()
    await admin.call('POST', '/api/v1/namespaces', { metadata: { name: `tollgate-${organizationId}` } })
    await expect(driver.create(machineName(), machineSpec({ organizationId }), never)).rejects.toThrow('is not ours')
  })
}

/** The answer of `status` for each state of a pod; its list says the same. */
const STATES: readonly (readonly [PodStateName, string])[] = [
  ['unscheduled', 'creating'],
  ['starting', 'creating'],
  ['pullError', 'creating'],
  ['invalidImage', 'ended'],
  ['notReady', 'creating'],
  ['ready', 'running'],
  ['crashedOnce', 'creating'],
  ['crashLoop', 'ended'],
  ['completed', 'ended'],
  ['failed', 'creating'],
]

function declareStateTests(stage: () => SuiteStage): void {
  test.each(STATES)('one whose pod is %s is %s', async (pod, state) => {
    const { driver, admin } = stage()
    const controller = testController(admin)
    const name = machineName()
    await driver.create(name, machineSpec(), never)
    await controller.step()
    await controller.setPod(name, pod)
    expect((await driver.status(name, never))?.state).toBe(state as 'creating')
    const listed = (await driver.list(never)).filter((each) => each.name === name)
    expect(listed).toEqual([
      { name, state: state as 'creating', appUrl: `http://${name}.${NAMESPACE}.svc:8080`, terminalUrl: null },
    ])
  })

  test('one whose third pod has failed has ended, unless another pod answers', async () => {
    const { driver, admin } = stage()
    const controller = testController(admin)
    const name = machineName()
    await driver.create(name, machineSpec(), never)
    await controller.step()
    await controller.setPod(name, 'failed')
    const states: (string | undefined)[] = []
    for (const pod of ['failed', 'failed', 'ready'] as const) {
      await controller.addPod(name)
      await controller.setPod(name, pod)
      states.push((await driver.status(name, never))?.state)
    }
    expect(states).toEqual(['creating', 'ended', 'running'])
  })
}

function declareDeletionTests(stage: () => SuiteStage): void {
  test('one that is deleted is there until its pods are gone, and deleting it again does nothing', async () => {
    const { driver, admin } = stage()
    const controller = testController(admin)
    const name = machineName()
    await driver.create(name, machineSpec(), never)
    await controller.step()
    await controller.setPod(name, 'ready')
    await driver.delete(name, never)
    expect((await driver.status(name, never))?.state).toBe('ended')
    await driver.delete(name, never)
    await controller.step()
    expect(await driver.status(name, never)).toBeNull()
    await driver.delete(name, never)
    expect((await driver.list(never)).filter((each) => each.name === name)).toEqual([])
    expect(await admin.status('GET', `/api/v1/namespaces/${NAMESPACE}/services/${name}`)).toBe(404)
  })
}

function declareHandTests(stage: () => SuiteStage): void {
  test('one whose deployment was deleted by hand is gone, and what is left of it is deleted', async () => {
    const { driver, admin } = stage()
    const name = machineName()
    await driver.create(name, machineSpec(), never)
    await admin.call('DELETE', `/apis/apps/v1/namespaces/${NAMESPACE}/deployments/${name}`)
    expect(await driver.status(name, never)).toBeNull()
    expect((await driver.list(never)).filter((each) => each.name === name)).toEqual([])
    await driver.delete(name, never)
    expect(await admin.status('GET', `/api/v1/namespaces/${NAMESPACE}/services/${name}`)).toBe(404)
  })

  test('one whose service was deleted by hand has ended, since nobody reaches its app', async () => {
    const { driver, admin } = stage()
    const controller = testController(admin)
    const name = machineName()
    await driver.create(name, machineSpec(), never)
    await controller.step()
    await controller.setPod(name, 'ready')
    await admin.call('DELETE', `/api/v1/namespaces/${NAMESPACE}/services/${name}`)
    expect((await driver.status(name, never))?.state).toBe('ended')
    expect((await driver.list(never)).find((each) => each.name === name)?.state).toBe('ended')
  })

  test('one whose pod was deleted by hand gets another', async () => {
    const { driver, admin } = stage()
    const controller = testController(admin)
    const name = machineName()
    await driver.create(name, machineSpec(), never)
    await controller.step()
    await controller.setPod(name, 'ready')
    await controller.killPods(name)
    expect((await driver.status(name, never))?.state).toBe('creating')
    await controller.step()
    await controller.setPod(name, 'ready')
    expect((await driver.status(name, never))?.state).toBe('running')
  })

  test.each([
    ['of another prefix', `stranger-${crypto.randomUUID()}`],
    ['of a longer prefix', `tollgate-b-${crypto.randomUUID()}`],
    ['of nobody', `tollgate-${crypto.randomUUID().slice(1)}`],
  ])('machines in a namespace %s are neither listed nor found', async (_name, namespace) => {
    const { driver, admin } = stage()
    const name = machineName()
    const labels = { 'app.kubernetes.io/managed-by': 'tollgate', 'tollgate.io/machine': name }
    const body = {
      metadata: { name, labels },
      spec: {
        selector: { matchLabels: labels },
        template: { metadata: { labels }, spec: { containers: [{ name: 'a', image: 'x' }] } },
      },
    }
    await admin.call('POST', '/api/v1/namespaces', { metadata: { name: namespace } })
    await admin.call('POST', `/apis/apps/v1/namespaces/${namespace}/deployments`, body)
    expect(await driver.status(name, never)).toBeNull()
    expect((await driver.list(never)).filter((each) => each.name === name)).toEqual([])
    await driver.delete(name, never)
    expect(await admin.status('GET', `/apis/apps/v1/namespaces/${namespace}/deployments/${name}`)).toBe(200)
  })
}

function deploymentOf(admin: ApiClient, name: string, namespace = NAMESPACE): Promise<Kept> {
  return admin.call<Kept>('GET', `/apis/apps/v1/namespaces/${namespace}/deployments/${name}`)
}
