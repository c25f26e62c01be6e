/** The driver `kubernetes` of the section `instances`. */

import { isAbsolute } from 'node:path'
import { z } from 'zod'
import type { Path, Report } from './document.ts'
import type { ClusterGpu, KubernetesDriverSettings } from './offering.ts'
import { closed, seconds, whole } from './shape.ts'

/** A namespace has 63 characters at most, and ends with the 36 of an organization's id. */
const PREFIX_MAX = 63 - 36

/** Far more than anyone has. */
const ENTRIES_MAX = 100

/** Of a quota: those that end count beside those that begin. */
const PODS_FOR_EACH = 2

/** Part of the name of a label or a resource: a domain, a slash and a name. */
const LABEL_NAME = /^([a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?\/)?[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?$/

const LABEL_VALUE = /^([A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?)?$/

const namespace = z
  .string()
  .regex(/^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$/, "must be the name of a namespace, such as 'tollgate'")

const ClusterGpuShape = closed({
  gpu_type: z.string(),
  resource: z
    .string()
    .regex(LABEL_NAME, "must be the name of a resource, such as 'nvidia.com/gpu'")
    .refine((name) => name.includes('/'), "must have a domain, such as 'nvidia.com/gpu'")
    .default('nvidia.com/gpu'),
  nodes: z
    .record(
      z.string().regex(LABEL_NAME, "must be the name of a label, such as 'nvidia.com/gpu.product'"),
      z.string().regex(LABEL_VALUE, 'must be the value of a label: 63 characters at most'),
    )
    .default({}),
  cpus: z.number().min(0.1).max(1_024).default(4),
  memory_mb: whole(16, 100_000_000).default(16_384),
})

export const KubernetesDriverShape = closed({
  kind: z.literal('kubernetes'),
  kubeconfig: z
    .string()
    .refine(isAbsolute, "must be the absolute path of a kubeconfig, such as '/etc/tollgate/kubeconfig'")
    .optional(),
  context: z.string().min(1).max(253).optional(),
  namespace_prefix: z
    .string()
    .max(PREFIX_MAX)
    .regex(/^[a-z]([a-z0-9-]*[a-z0-9])?-$/, "must begin with a letter and end with '-', such as 'tollgate-'")
    .refine((prefix) => !prefix.startsWith('kube-'), "must not begin with 'kube-', which is the cluster's own")
    .default('tollgate-'),
  reached_from: z.array(namespace).min(1, 'must name a namespace: that of the gateway').max(ENTRIES_MAX),
  internet: z.boolean().default(false),
  timeout_seconds: seconds(1, 60).default(10),
  gpus: z.array(ClusterGpuShape).min(1, "must have one '- gpu_type: …' at least").max(ENTRIES_MAX),
})

type Shape = z.infer<typeof KubernetesDriverShape>

interface Offered {
  readonly host?: string | undefined
  readonly gpu_types: readonly { readonly name: string }[]
  readonly apps: readonly { readonly image?: string | undefined; readonly terminal: boolean }[]
}

/** Reads the driver; the quota of an organization follows from what it may have at once. */
export function loadKubernetesDriver(
  driver: Shape,
  { liveMost, gpusMost }: { readonly liveMost: number; readonly gpusMost: number },
): KubernetesDriverSettings {
  return {
    kind: 'kubernetes',
    kubeconfig: driver.kubeconfig ?? null,
    context: driver.context ?? null,
    namespacePrefix: driver.namespace_prefix,
    reachedFrom: driver.reached_from,
    internet: driver.internet,
    timeoutMs: Math.round(driver.timeout_seconds * 1_000),
    podsMost: liveMost * PODS_FOR_EACH,
    gpusMost,
    gpus: driver.gpus.map(
      ({ gpu_type: gpuType, memory_mb: memoryMb, ...rest }): ClusterGpu => ({ ...rest, gpuType, memoryMb }),
    ),
  }
}

/** Reports offerings that a cluster can't provide, and GPU types without what it has to know of them. */
export function refuseForCluster(
  driver: Shape,
  { gpu_types: gpuTypes, apps }: Offered,
  path: Path,
  report: Report,
): void {
  if (driver.context !== undefined && driver.kubeconfig === undefined) {
    report([...path, 'driver', 'context'], "needs 'kubeconfig', which has contexts")
  }
  refuseGpus(driver, gpuTypes, [...path, 'driver', 'gpus'], report)
  for (const [index, { image, terminal }] of apps.entries()) {
    const at = [...path, 'apps', index]
    if (image === undefined) report(at, "needs an 'image' with the driver 'kubernetes'")
    if (terminal) report([...at, 'terminal'], "must be false with the driver 'kubernetes', which has no terminals")
  }
}

function refuseGpus({ gpus }: Shape, gpuTypes: Offered['gpu_types'], path: Path, report: Report): void {
  const names = new Set(gpuTypes.map(({ name }) => name))
  const seen = new Set<string>()
  const sold = new Set<string>()
  for (const [index, { gpu_type, resource, nodes }] of gpus.entries()) {
    if (!names.has(gpu_type)) report([...path, index, 'gpu_type'], "must be a name of 'gpu_types'")
    if (seen.has(gpu_type)) report([...path, index, 'gpu_type'], 'is that of an entry above: change one of them')
    const nodesKey = JSON.stringify([resource, Object.entries(nodes).sort()])
    if (sold.has(nodesKey)) report([...path, index, 'nodes'], 'must tell its GPUs from those of the entry above')
    seen.add(gpu_type)
    sold.add(nodesKey)
  }
  for (const { name } of gpuTypes) {
    if (!seen.has(name))
      report(path, `needs an entry '- gpu_type: ${name}', which says what such a GPU is to the cluster`)
  }
}
