import type { InstanceDriverSettings } from '../catalog/offering.ts'
import { fetchByIdentity } from '../infra/tlsFetch.ts'
import { commandDriver } from './drivers/command.ts'
import type { InstanceDriver } from './drivers/driver.ts'
import { connectCluster } from './drivers/kubernetes/connect.ts'
import { kubernetesDriver } from './drivers/kubernetes/kubernetesDriver.ts'
import { type HostDependencies, openHost } from './drivers/process/host.ts'
import { processDriver } from './drivers/process/processDriver.ts'

/** Returns the driver that the settings name. Throws, with what to do, where it can't work on this host. */
export async function openDriver(settings: InstanceDriverSettings, machine: HostDependencies): Promise<InstanceDriver> {
  const { clock, log, hidden } = machine
  if (settings.kind === 'command') return commandDriver(settings, clock)
  if (settings.kind === 'kubernetes') {
    const cluster = await connectCluster(settings, { clock, fetch: fetchByIdentity })
    return kubernetesDriver({ settings, cluster, clock, log })
  }
  return processDriver({ settings, host: await openHost(settings, machine), clock, log, hidden })
}
