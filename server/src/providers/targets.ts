import type { Catalog, Tier } from '../catalog/model.ts'
import type { ProviderClients } from './clients.ts'
import type { ProviderTarget } from './dialect/spec.ts'

/** Returns the client for a provider's settings. */
export type ClientFor = ProviderClients['clientFor']

/** The providers as a call needs them. */
export interface Providers {
  /** Returns the targets of a tier with their clients, in the order of the settings. */
  targetsOf(tier: Tier): readonly ProviderTarget[]
}

/**
 * Returns the providers of the catalog in force. A target whose provider is in the settings no more is left out. The targets
 * of a tier are put together once for each catalog.
 */
export function createProviders(catalog: () => Catalog, clientFor: ClientFor): Providers {
  let current: Catalog | null = null
  let known = new WeakMap<Tier, readonly ProviderTarget[]>()
  return {
    targetsOf(tier) {
      const inForce = catalog()
      if (inForce !== current) {
        current = inForce
        known = new WeakMap()
      }
      const found = known.get(tier)
      if (found !== undefined) return found
      const targets = tier.targets.flatMap((target) => {
        const settings = inForce.providers.get(target.provider)
        return settings === undefined ? [] : [{ ...target, provider: clientFor(settings) }]
      })
      known.set(tier, targets)
      return targets
    },
  }
}
