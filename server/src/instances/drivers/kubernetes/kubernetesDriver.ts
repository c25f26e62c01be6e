/** The driver that makes machines as deployments of a Kubernetes cluster, by its official client. */

import { z } from 'zod'
import { CreateRefused, type DriverMachine, type InstanceDriver, type MachineSpec } from '../driver.ts'
import { ClusterFailure, exceptAt } from './clusterFailure.ts'
import {
  BOUNDS_NAME,
  deploymentObject,
  isClusterMachineName,
  isOwnNamespace,
  MACHINE_LABEL,
  namespaceObject,
  namespaceOf,
  OWN_OBJECTS,
  policyObject,
  quotaObject,
  serviceObject,
  serviceUrl,
} from './machineObjects.ts'
import {
  type DeploymentSeen,
  DeploymentShape,
  machineOfObject,
  machineState,
  type PodSeen,
  PodShape,
  type ServiceSeen,
  ServiceShape,
} from './machineState.ts'
import { listAll } from './pages.ts'
import { type PodWatchMeans, watchMachines } from './watch.ts'

/** Server-side apply: the object is as we say afterwards, whatever it was. */
const APPLY = 'application/apply-patch+yaml'
const AS_MANAGER = { fieldManager: 'tollgate', force: true }

const DeploymentList = z.object({ items: z.array(DeploymentShape) })
const ServiceList = z.object({ items: z.array(ServiceShape) })
const NamespaceShape = z.object({ metadata: z.object({ labels: z.record(z.string(), z.string()).optional() }) })

export type KubernetesDriverDependencies = PodWatchMeans

/** Returns the driver. `connectCluster` gives it its cluster. */
export function kubernetesDriver(means: KubernetesDriverDependencies): InstanceDriver {
  return {
    kind: 'kubernetes',
    create: async (name, spec, signal) => createMachine(means, checked(name), spec, signal),
    async status(name, signal) {
      const deployment = await findDeployment(means, checked(name), signal)
      return deployment === null ? null : readMachine(means, name, deployment, signal)
    },
    async delete(name, signal) {
      // Its service too where only that is left.
      const found = [await findDeployment(means, checked(name), signal), await findService(means, name, signal)]
      for (const each of found) if (each !== null) await deleteObjects(means, name, placeOf(each), signal)
    },
    list: (signal) => listMachines(means, signal),
    watch: (tell, signal) => watchMachines(means, tell, signal),
  }
}

function checked(name: string): string {
  if (!isClusterMachineName(name)) throw new Error('a machine has a name that is none of ours')
  return name
}

async function createMachine(
  means: KubernetesDriverDependencies,
  name: string,
  spec: MachineSpec,
  signal: AbortSignal,
): Promise<DriverMachine> {
  const { settings, cluster } = means
  const gpu = settings.gpus.find(({ gpuType }) => gpuType === spec.gpuType)
  const namespace = namespaceOf(settings, spec.organizationId)
  const deployment = gpu === undefined ? null : deploymentObject(name, namespace, spec, gpu)
  if (deployment === null) throw new CreateRefused()
  await openNamespace(means, namespace, signal)
  const body = { namespace, fieldValidation: 'Strict' } as const
  // The service first: a deployment that is there has one.
  const service = serviceObject(name, namespace, spec)
  await unlessInvalid(
    cluster.ask((options) => cluster.core.createNamespacedService({ ...body, body: service }, options), signal),
  )
  const made = await unlessInvalid(
    cluster.ask((options) => cluster.apps.createNamespacedDeployment({ ...body, body: deployment }, options), signal),
  )
  const own = made ?? (await readDeployment(means, name, namespace, signal))
  if (own === null) throw new ClusterFailure(0, 'the deployment was deleted while it was made')
  return readMachine(means, name, DeploymentShape.parse(own), signal)
}

/** Resolves to null where there is such an object. The cluster would refuse one that is not valid for ever. */
async function unlessInvalid<T>(asked: Promise<T>): Promise<T | null> {
  try {
    return await exceptAt(409, asked, null)
  } catch (error) {
    if (error instanceof ClusterFailure && (error.status === 400 || error.status === 422)) throw new CreateRefused()
    throw error
  }
}

/** Makes the namespace of an organization, and holds it to its quota and its policy: before any machine is in it. */
async function openNamespace(
  { settings, cluster }: KubernetesDriverDependencies,
  namespace: string,
  signal: AbortSignal,
): Promise<void> {
  const { core, networking, ask } = cluster
  const body = namespaceObject(namespace)
  const made = await exceptAt(
    409,
    ask((options) => core.createNamespace({ body, fieldValidation: 'Strict' }, options), signal),
    null,
  )
  if (made === null) {
    const found = NamespaceShape.parse(await ask((options) => core.readNamespace({ name: namespace }, options), signal))
    const [key = '', value] = OWN_OBJECTS.split('=')
    if (found.metadata.labels?.[key] !== value) {
      throw new ClusterFailure(
        409,
        `the namespace ${namespace} is there and is not ours: it has no label ${OWN_OBJECTS}`,
      )
    }
  }
  const applied = { name: BOUNDS_NAME, namespace, ...AS_MANAGER }
  const policy = policyObject(settings, namespace)
  const quota = quotaObject(settings, namespace)
  await ask((options) => networking.patchNamespacedNetworkPolicy({ ...applied, body: policy }, options), signal, APPLY)
  await ask((options) => core.patchNamespacedResourceQuota({ ...applied, body: quota }, options), signal, APPLY)
}

/** The deployment of a machine, in whichever namespace; null: there is none. */
async function findDeployment(
  means: KubernetesDriverDependencies,
  name: string,
  signal: AbortSignal,
): Promise<DeploymentSeen | null> {
  const { apps, ask } = means.cluster
  const asked = selectionOf(name)
  const found = await ask((options) => apps.listDeploymentForAllNamespaces(asked, options), signal)
  return ownOne(means, name, DeploymentList.parse(found).items)
}

async function findService(
  means: KubernetesDriverDependencies,
  name: string,
  signal: AbortSignal,
): Promise<ServiceSeen | null> {
  const { core, ask } = means.cluster
  const asked = selectionOf(name)
  const found = await ask((options) => core.listServiceForAllNamespaces(asked, options), signal)
  return ownOne(means, name, ServiceList.parse(found).items)
}

/** Without a page, since the API has such a list in memory: pages are read from etcd. */
function selectionOf(name: string) {
  return { labelSelector: `${OWN_OBJECTS},${MACHINE_LABEL}=${name}` }
}

function ownOne<T extends Seen>(
  { settings }: KubernetesDriverDependencies,
  name: string,
  found: readonly T[],
): T | null {
  return found.find((each) => each.metadata.name === name && isOwnNamespace(settings, placeOf(each))) ?? null
}

function readDeployment(
  { cluster: { apps, ask } }: KubernetesDriverDependencies,
  name: string,
  namespace: string,
  signal: AbortSignal,
): Promise<unknown> {
  return exceptAt(
    404,
    ask((options) => apps.readNamespacedDeployment({ name, namespace }, options), signal),
    null,
  )
}

async function readMachine(
  { cluster: { core, ask } }: KubernetesDriverDependencies,
  name: string,
  deployment: DeploymentSeen,
  signal: AbortSignal,
): Promise<DriverMachine> {
  const namespace = placeOf(deployment)
  const service = await exceptAt(
    404,
    ask((options) => core.readNamespacedService({ name, namespace }, options), signal),
    null,
  )
  const labelSelector = `${MACHINE_LABEL}=${name}`
  const pods = await listAll(
    (page) => ask((options) => core.listNamespacedPod({ namespace, labelSelector, ...page }, options), signal),
    PodShape,
  )
  return toMachine(name, deployment, service === null ? null : ServiceShape.parse(service), pods.items)
}

function toMachine(
  name: string,
  deployment: DeploymentSeen,
  service: ServiceSeen | null,
  pods: readonly PodSeen[],
): DriverMachine {
  const port = service?.spec.ports?.[0]?.port
  const appUrl = port === undefined ? null : serviceUrl(name, placeOf(deployment), port)
  return { name, state: machineState(deployment, service, pods), appUrl, terminalUrl: null }
}

/** Begins to delete; what is not there is no failure. The deployment stays until its pods are gone, so that `status` finds it. */
async function deleteObjects(
  { cluster: { apps, core, ask } }: KubernetesDriverDependencies,
  name: string,
  namespace: string,
  signal: AbortSignal,
): Promise<void> {
  const object = { name, namespace }
  const deployment = { ...object, propagationPolicy: 'Foreground' } as const
  await exceptAt(
    404,
    ask((options) => apps.deleteNamespacedDeployment(deployment, options), signal),
    null,
  )
  await exceptAt(
    404,
    ask((options) => core.deleteNamespacedService(object, options), signal),
    null,
  )
}

async function listMachines(
  { settings, cluster: { apps, core, ask } }: KubernetesDriverDependencies,
  signal: AbortSignal,
): Promise<DriverMachine[]> {
  const selected = { labelSelector: OWN_OBJECTS }
  // Deployments first: what is made meanwhile would else be listed without its service.
  const deployments = await listAll(
    (page) => ask((options) => apps.listDeploymentForAllNamespaces({ ...selected, ...page }, options), signal),
    DeploymentShape,
  )
  const services = await listAll(
    (page) => ask((options) => core.listServiceForAllNamespaces({ ...selected, ...page }, options), signal),
    ServiceShape,
  )
  const pods = await listAll(
    (page) => ask((options) => core.listPodForAllNamespaces({ ...selected, ...page }, options), signal),
    PodShape,
  )
  const serviceOf = new Map(services.items.map((each) => [keyOf(each), each]))
  const podsOf = Map.groupBy(pods.items, keyOf)
  return deployments.items
    .filter((each) => isOwnNamespace(settings, placeOf(each)) && machineOfObject(each.metadata) === each.metadata.name)
    .map((each) => {
      const key = keyOf(each)
      return toMachine(each.metadata.name, each, serviceOf.get(key) ?? null, podsOf.get(key) ?? [])
    })
}

type Seen = Pick<DeploymentSeen, 'metadata'>

const placeOf = ({ metadata }: Seen) => metadata.namespace ?? ''

const keyOf = (seen: Seen) => `${placeOf(seen)}/${machineOfObject(seen.metadata)}`
