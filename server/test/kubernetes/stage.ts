/** A cluster, real or not, with a driver on it. */

import type { KubernetesDriverSettings } from '../../src/catalog/offering.ts'
import { systemClock } from '../../src/infra/clock.ts'
import { fetchByIdentity, type TlsFetch } from '../../src/infra/tlsFetch.ts'
import type { InstanceDriver, MachineSpec } from '../../src/instances/drivers/driver.ts'
import { connectCluster } from '../../src/instances/drivers/kubernetes/connect.ts'
import { kubernetesDriver } from '../../src/instances/drivers/kubernetes/kubernetesDriver.ts'
import type { Log } from '../../src/lib/log.ts'
import type { Clock } from '../../src/lib/time.ts'
import { SILENCE } from '../silence.ts'

export const ORGANIZATION = '0190b3b4-0000-7000-8000-00000000000a'

export const CLUSTER_SETTINGS: Omit<KubernetesDriverSettings, 'kubeconfig'> = {
  ...{ kind: 'kubernetes', context: null, namespacePrefix: 'tollgate-', reachedFrom: ['tollgate'], internet: true },
  ...{ timeoutMs: 10_000, podsMost: 40, gpusMost: 160 },
  gpus: [
    {
      ...{ gpuType: 'a100', resource: 'nvidia.com/gpu', nodes: { 'nvidia.com/gpu.product': 'NVIDIA-A100' } },
      ...{ cpus: 4, memoryMb: 16_384 },
    },
  ],
}

/** A name as the gateway chooses it. */
export function machineName(): string {
  return `tollgate-${crypto.randomUUID()}`
}

export function machineSpec(more: Partial<MachineSpec> = {}): MachineSpec {
  return {
    ...{ organizationId: ORGANIZATION, app: 'server', image: 'ghcr.io/example/server:1', command: null, port: 8_080 },
    ...{ terminal: false, gpuType: 'a100', gpuCount: 2, diskGb: 10, model: null },
    ...more,
  }
}

export async function clusterDriver(
  kubeconfig: string | null,
  more: Partial<KubernetesDriverSettings> = {},
  clock: Clock = systemClock,
  log: Log = SILENCE,
  fetch: TlsFetch = fetchByIdentity,
): Promise<InstanceDriver> {
  const settings = { ...CLUSTER_SETTINGS, kubeconfig, ...more }
  const cluster = await connectCluster(settings, { clock, fetch })
  return kubernetesDriver({ settings, cluster, clock, log })
}
