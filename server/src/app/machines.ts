import type { Config } from '../config/config.ts'
import type { Noter } from '../identity/audit/note.ts'
import type { DatabaseAddress } from '../infra/postgres/address.ts'
import type { Queryable } from '../infra/postgres/database.ts'
import type { InstanceDependencies } from '../instances/job/dependencies.ts'
import { reportForgotten } from '../instances/unpaid/forgotten.ts'
import { uuidV7 } from '../lib/ids.ts'
import { publishEvent } from '../webhooks/publish.ts'
import type { Room } from './room.ts'

type Infrastructure = Pick<InstanceDependencies, 'database' | 'clock' | 'random' | 'log' | 'onDayMended'>

export interface MachineOptions extends Infrastructure {
  /** Writes changes into the audit log. */
  readonly noter: Noter
  readonly config: Pick<Config, 'settings' | 'host' | 'member'>
  /** For reads whose clients wait. */
  readonly reads: Queryable
  readonly dataDirectory: string
  readonly databaseAddress: DatabaseAddress
}

/** The rooms of operations and instances. They are loaded where the settings offer any; where not, instances that still live are reported. */
export async function openMachines(
  given: MachineOptions,
  money: InstanceDependencies['money'],
  onNoticed: () => void,
): Promise<Room[]> {
  const { config, noter, database, reads, clock, random, log, onDayMended } = given
  const { instances, webhooks, lowBalanceMicrocents, trustedProxies } = config.settings.fixed
  if (instances === null) {
    await reportForgotten({ database, log })
    return []
  }
  const [{ openDriver }, { openInstances }, { openOperations }] = await Promise.all([
    import('../instances/clients.ts'),
    import('../instances/open.ts'),
    import('../operations/open.ts'),
  ])
  const instanceDependencies: InstanceDependencies = {
    ...{ database, clock, random, log },
    money,
    onNoticed,
    ...(onDayMended === undefined ? {} : { onDayMended }),
    lowBalanceMicrocents,
    settings: instances,
    driver: await openDriver(instances.driver, {
      ...{ clock, log, uid: process.getuid?.(), hidden: secretFolders(given) },
      newPlace: () => uuidV7(clock.now(), random),
    }),
    publish: (tx, event) => publishEvent(tx, event, webhooks.pendingMost),
  }
  // Of several processes on one host, one has the port of apps.
  const hasAppPort = config.member?.hasAppPort ?? true
  const appPort = { host: config.host, trustedProxies }
  const rented = await openInstances({ ...instanceDependencies, noter, reads }, hasAppPort ? appPort : null)
  return [openOperations({ database, reads, clock }), rented]
}

/** Folders that no app may look into: our data, and where the database takes connections. */
function secretFolders({ dataDirectory, databaseAddress }: MachineOptions): string[] {
  const socketFolder = new URL(databaseAddress.url).searchParams.get('host')
  return [dataDirectory, ...(socketFolder?.startsWith('/') ? [socketFolder] : [])]
}
