/** Part of `app.ts`: the catalog's prices, kept before they are in force, and the clients of its targets. */

import { type Catalog, type Served, tiersOf } from '../catalog/model.ts'
import { priceToJson } from '../catalog/price.ts'
import type { Database } from '../io/postgres/database.ts'
import type { Log } from '../kernel/log.ts'
import { storePriceVersion } from '../money/store.ts'
import type { Health } from '../routing/health.ts'
import type { UpstreamClients } from '../upstream/clients.ts'

export type ClientFor = UpstreamClients['clientFor']

export async function storePrices(database: Database, catalog: Catalog, nowMs: number): Promise<void> {
  for (const tier of tiersOf(catalog)) {
    await storePriceVersion(database, tier.priceHash, priceToJson(tier.price), nowMs)
  }
}

/** The targets of a tier with their clients, in the order of the settings. */
export function targetsOf({ tier }: Served, catalog: Catalog, clientFor: ClientFor) {
  return tier.targets.flatMap((target) => {
    const settings = catalog.upstreams.get(target.upstream)
    return settings === undefined ? [] : [{ ...target, upstream: clientFor(settings) }]
  })
}

/** What is known of each target that is offered now. */
export function* healthOf(catalog: Catalog, clientFor: ClientFor, health: Health) {
  const seen = new Set<string>()
  for (const tier of tiersOf(catalog)) {
    for (const { upstream, model } of tier.targets) {
      const settings = catalog.upstreams.get(upstream)
      if (settings === undefined || seen.has(`${upstream}/${model}`)) continue
      seen.add(`${upstream}/${model}`)
      const { open, breaker } = health.of({ upstream: clientFor(settings), model })
      yield { upstream, model, open, isWell: breaker.state === 'closed' }
    }
  }
}

/** Ends the clients of upstreams that are not in the settings any more. */
export function keepClients(clients: UpstreamClients, catalog: Catalog, log: Log): void {
  clients.keepOnly(catalog.upstreams.values()).catch((error: unknown) => {
    log.warn({ err: error }, 'an upstream that is not in the settings any more could not be ended cleanly')
  })
}
