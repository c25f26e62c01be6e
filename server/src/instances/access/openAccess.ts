import type { AccessSettings } from '../../catalog/offering.ts'
import type { Database } from '../../infra/postgres/database.ts'
import { openProxyServer, type ProxyServer } from '../../infra/proxy/server.ts'
import { addressGroup, createClientAddress, createIsTrustedProxy } from '../../lib/clientAddress.ts'
import type { RandomBytes } from '../../lib/ids.ts'
import type { Log } from '../../lib/log.ts'
import { requestIdOf } from '../../lib/requestId.ts'
import { type Clock, SECOND_MS } from '../../lib/time.ts'
import { decideAccess } from './decide.ts'
import { createDoors, type Doors, endStaleDoors } from './doors.ts'
import { findAccess, listHashes } from './store.ts'
import { countWrongPasswords } from './wrongPasswords.ts'

const LOOK_MS = 10 * SECOND_MS

/** A host that takes a certificate stands behind a proxy. */
const NO_TRUSTED_PROXY =
  'instances.host without trusted_proxies: the wrong passwords and silent connections of all callers count as those of your proxy, ' +
  'so that one stranger can lock all customers out of their apps; set trusted_proxies to the address of the proxy'

export interface AccessDependencies {
  readonly access: AccessSettings
  /** The address to listen at. */
  readonly host: string
  readonly database: Database
  readonly clock: Clock
  readonly random: RandomBytes
  readonly log: Log
  readonly trustedProxies: readonly string[]
}

/** Opens the port of apps and terminals. Rejects, with what to do, where it is taken. */
export async function openAccess(dependencies: AccessDependencies) {
  const { access, host, database, clock, random, log, trustedProxies } = dependencies
  if (access.isSecure && trustedProxies.length === 0) log.warn({}, NO_TRUSTED_PROXY)
  const doors = createDoors()
  const decide = decideAccess({
    ...{ access, log, doors },
    clientAddress: createClientAddress(trustedProxies),
    find: (id) => findAccess(database, id),
    wrongPasswords: countWrongPasswords(clock),
  })
  const isTrusted = createIsTrustedProxy(trustedProxies)
  const callerOf = (address: string) => (isTrusted(address) ? null : addressGroup(address))
  const server = await openProxyServer({
    ...{ host, port: access.port, clock, decide, callerOf },
    requestIdOf: (header) => requestIdOf(header, random),
  }).catch(() => {
    throw new Error(`instances.port: port ${access.port} of ${host} can't be opened: name another, or stop who has it`)
  })
  log.info({ port: server.port }, 'apps of instances answer')
  return { server, task: accessTask(database, doors, server) }
}

function accessTask(database: Database, doors: Doors, server: ProxyServer) {
  return {
    name: 'requests to apps',
    everyMs: LOOK_MS,
    run: () => endStaleDoors(doors, (ids) => listHashes(database, ids)),
    gauge: {
      name: 'tollgate_app_connections',
      help: 'Connections to apps of instances.',
      read: () => server.connections,
    },
  }
}
