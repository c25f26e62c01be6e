import type { Catalog } from '../catalog/model.ts'
import type { ProviderSettings } from '../catalog/provider.ts'
import { createHttp } from '../infra/httpClient/client.ts'
import type { Log } from '../lib/log.ts'
import { type Clock, MINUTE_MS } from '../lib/time.ts'
import { createProviderClients, type ProviderClientsOptions } from './clients.ts'
import type { Provider } from './dialect/spec.ts'
import { createProviders } from './targets.ts'
import { createVectorWork } from './vectors/work.ts'

export interface ProvidersOptions extends Pick<ProviderClientsOptions, 'environment'> {
  readonly clock: Clock
  readonly log: Log
  /** Returns the catalog in force. It is asked only once everything is open. */
  readonly catalog: () => Catalog
  /** Puts another client in the place of a provider's own, always the same for the same one. */
  readonly wrap: (client: Provider) => Provider
}

/** Opens the room of providers: their clients, each started when it is first asked for, and the thread for vectors. */
export function openProviders({ clock, log, catalog, wrap, environment }: ProvidersOptions) {
  const http = createHttp(clock)
  const vectors = createVectorWork(log)
  const clients = createProviderClients({ http, clock, log, vectors, environment })
  const clientFor = (settings: ProviderSettings): Provider => wrap(clients.clientFor(settings))
  const keepOnly = ({ providers }: Catalog) => clients.keepOnly(providers.values())
  return {
    vectors,
    clientFor,
    /** Returns the client of a provider by its name in the settings; null: it is not in there any more. */
    named(name: string): Provider | null {
      const settings = catalog().providers.get(name)
      return settings === undefined ? null : clientFor(settings)
    },
    targetsOf: createProviders(catalog, clientFor).targetsOf,
    /** Starts the client of every provider in the settings: an engine takes its time. */
    onOpened(): void {
      for (const settings of catalog().providers.values()) clients.clientFor(settings)
    },
    /** Ends the clients of providers that are not in a catalog any more. Returns at once. */
    keep(next: Catalog): void {
      keepOnly(next).catch((error: unknown) => {
        log.warn({ err: error }, 'a provider that is not in the settings any more could not be ended cleanly')
      })
    },
    periodicTasks: [{ name: 'clients of providers', everyMs: MINUTE_MS, run: () => keepOnly(catalog()) }],
    async close(): Promise<void> {
      await Promise.all([clients.close(), vectors.close()])
      http.close()
    },
  }
}
