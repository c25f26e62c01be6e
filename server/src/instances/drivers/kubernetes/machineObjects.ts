/** The objects of a machine, and of the namespace that it stands in. */

import type { ClusterGpu, KubernetesDriverSettings } from '../../../catalog/offering.ts'
import type { MachineSpec } from '../driver.ts'

/** All objects of ours have it; the one label that lists and watches go by. */
const MANAGER_LABEL = 'app.kubernetes.io/managed-by'
const MANAGER = 'tollgate'

/** On a machine's objects: its name, which is ours and fits into a label. */
export const MACHINE_LABEL = 'tollgate.io/machine'

export const OWN_OBJECTS = `${MANAGER_LABEL}=${MANAGER}`

/** Of the quota and of the policy, one of each in a namespace. */
export const BOUNDS_NAME = 'tollgate'

/** An app gets so long to end by itself. */
const GRACE_SECONDS = 10

/** Networks that are nobody's on the internet: of the cluster, of its neighbours, and of the services of clouds. */
const PRIVATE_IPV4 = [
  ...['0.0.0.0/8', '10.0.0.0/8', '100.64.0.0/10', '127.0.0.0/8', '169.254.0.0/16', '172.16.0.0/12'],
  ...['192.0.0.0/24', '192.168.0.0/16', '198.18.0.0/15', '224.0.0.0/3'],
  // The address at which Azure's host serves its virtual machines.
  '168.63.129.16/32',
]
/** All public addresses of IPv6, and no others. */
const PUBLIC_IPV6 = '2000::/3'

/** The namespace of an organization. */
export function namespaceOf({ namespacePrefix }: KubernetesDriverSettings, organizationId: string): string {
  return `${namespacePrefix}${organizationId}`
}

/** Returns whether a namespace has this prefix and the id of an organization, so that two prefixes never share one. */
export function isOwnNamespace({ namespacePrefix }: KubernetesDriverSettings, namespace: string): boolean {
  return (
    namespace.startsWith(namespacePrefix) &&
    /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/.test(namespace.slice(namespacePrefix.length))
  )
}

/** Names that we choose: no path leads anywhere else by one, and each is a label and the name of a service. */
export function isClusterMachineName(name: string): boolean {
  return /^tollgate-[0-9a-f-]{36}$/.test(name) && !name.endsWith('-')
}

/** The URL of a machine's app, for pods of the cluster. */
export function serviceUrl(name: string, namespace: string, port: number): string {
  return `http://${name}.${namespace}.svc:${port}`
}

export function namespaceObject(name: string): object {
  const labels = { [MANAGER_LABEL]: MANAGER, 'pod-security.kubernetes.io/enforce': 'baseline' }
  return { apiVersion: 'v1', kind: 'Namespace', metadata: { name, labels } }
}

/** The quota of a namespace: the most that all machines of an organization have together, whatever the gateway asks for. */
export function quotaObject({ podsMost, gpusMost, gpus }: KubernetesDriverSettings, namespace: string): object {
  const resources = new Set(gpus.map(({ resource }) => resource))
  const hard = {
    ...{ pods: String(podsMost), 'count/deployments.apps': String(podsMost), services: String(podsMost) },
    ...{ 'services.nodeports': '0', 'services.loadbalancers': '0', persistentvolumeclaims: '0' },
    ...Object.fromEntries([...resources].map((resource) => [`requests.${resource}`, String(gpusMost)])),
  }
  return { apiVersion: 'v1', kind: 'ResourceQuota', metadata: ownMetadata(BOUNDS_NAME, namespace), spec: { hard } }
}

/** Pods of the named namespaces reach apps; apps reach nothing, or public addresses. No machine reaches another. */
export function policyObject({ reachedFrom, internet }: KubernetesDriverSettings, namespace: string): object {
  const from = [
    { namespaceSelector: { matchExpressions: [{ key: NAMESPACE_LABEL, operator: 'In', values: [...reachedFrom] }] } },
  ]
  return {
    apiVersion: 'networking.k8s.io/v1',
    kind: 'NetworkPolicy',
    metadata: ownMetadata(BOUNDS_NAME, namespace),
    spec: {
      podSelector: {},
      policyTypes: ['Ingress', 'Egress'],
      ingress: [{ from }],
      egress: internet ? [NAME_SERVICE, PUBLIC_ADDRESSES] : [],
    },
  }
}

/** The cluster sets it on every namespace, and nobody can change it. */
const NAMESPACE_LABEL = 'kubernetes.io/metadata.name'

const NAME_SERVICE = {
  to: [{ namespaceSelector: { matchLabels: { [NAMESPACE_LABEL]: 'kube-system' } } }],
  ports: [
    { protocol: 'UDP', port: 53 },
    { protocol: 'TCP', port: 53 },
  ],
}

const PUBLIC_ADDRESSES = {
  to: [{ ipBlock: { cidr: '0.0.0.0/0', except: PRIVATE_IPV4 } }, { ipBlock: { cidr: PUBLIC_IPV6 } }],
}

export function serviceObject(name: string, namespace: string, { port }: MachineSpec): object {
  return {
    apiVersion: 'v1',
    kind: 'Service',
    metadata: machineMetadata(name, namespace),
    spec: { selector: { [MACHINE_LABEL]: name }, ports: [{ name: 'app', port, targetPort: port, protocol: 'TCP' }] },
  }
}

/** Null: the app can't be started like this. */
export function deploymentObject(name: string, namespace: string, spec: MachineSpec, gpu: ClusterGpu): object | null {
  const container = containerOf(spec, gpu)
  if (container === null) return null
  return {
    apiVersion: 'apps/v1',
    kind: 'Deployment',
    metadata: machineMetadata(name, namespace),
    spec: {
      replicas: 1,
      revisionHistoryLimit: 0,
      // Never two at once: each has the GPUs to itself.
      strategy: { type: 'Recreate' },
      selector: { matchLabels: { [MACHINE_LABEL]: name } },
      template: { metadata: { labels: labelsOf(name) }, spec: podOf(container, gpu) },
    },
  }
}

function podOf(container: object, { nodes, resource }: ClusterGpu): object {
  return {
    automountServiceAccountToken: false,
    enableServiceLinks: false,
    terminationGracePeriodSeconds: GRACE_SECONDS,
    nodeSelector: nodes,
    // Nodes with GPUs are tainted by the name of the resource, so that nothing else runs there.
    tolerations: [{ key: resource, operator: 'Exists', effect: 'NoSchedule' }],
    securityContext: { seccompProfile: { type: 'RuntimeDefault' } },
    containers: [container],
  }
}

function containerOf(
  { image, command, port, model, gpuCount, diskGb }: MachineSpec,
  { resource, cpus, memoryMb }: ClusterGpu,
): object | null {
  const needsModel = command?.some((word) => word.includes('{model}')) ?? false
  if (image === null || (needsModel && model === null)) return null
  // A function, since a text would have its `$&` replaced.
  const filled = (word: string) =>
    word.replaceAll(/\{(model|port)\}/g, (_, key) => (key === 'port' ? `${port}` : `${model}`))
  const bounds = {
    [resource]: String(gpuCount),
    cpu: String(Math.round(cpus * gpuCount * 1_000) / 1_000),
    memory: `${memoryMb * gpuCount}M`,
    'ephemeral-storage': `${Math.max(diskGb, 1)}G`,
  }
  return {
    name: 'app',
    image,
    ...(command === null ? {} : { command: command.map((word) => literal(filled(word))) }),
    env: [{ name: 'PORT', value: String(port) }, ...(model === null ? [] : [{ name: 'MODEL', value: literal(model) }])],
    ports: [{ name: 'app', containerPort: port, protocol: 'TCP' }],
    readinessProbe: { tcpSocket: { port }, periodSeconds: 2, timeoutSeconds: 2, failureThreshold: 3 },
    resources: { requests: bounds, limits: bounds },
    securityContext: { allowPrivilegeEscalation: false, capabilities: { drop: ['ALL'] } },
  }
}

/** Kubernetes replaces `$(NAME)` in words and values by variables; `$$` is its word for `$`. */
function literal(text: string): string {
  return text.replaceAll('$', () => '$$')
}

function labelsOf(name: string): Record<string, string> {
  return { [MANAGER_LABEL]: MANAGER, [MACHINE_LABEL]: name }
}

function machineMetadata(name: string, namespace: string): object {
  return { name, namespace, labels: labelsOf(name) }
}

function ownMetadata(name: string, namespace: string): object {
  return { name, namespace, labels: { [MANAGER_LABEL]: MANAGER } }
}
