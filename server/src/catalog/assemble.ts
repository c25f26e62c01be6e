import { sandboxOffer } from './builtin.ts'
import { type Discovered, discoveredOffer } from './discovered.ts'
import { type Catalog, createCatalog } from './model.ts'
import { isSameProvider, type ProviderSettings } from './provider.ts'
import type { Settings } from './settings.ts'

/**
 * The catalog of `settings`, the built-in models where they name none, and what was found at start. A provider that
 * reaches the same as one of the `running` catalog is the same object as there, so that what runs for it goes on.
 */
export function catalogOf(settings: Settings, found: readonly Discovered[], running: Catalog | null): Catalog {
  const builtin = settings.models === null ? sandboxOffer(settings.ownedBy) : null
  const own = builtin?.models ?? settings.models ?? []
  const names = own.flatMap((model) => [model.id, ...model.aliases])
  const discovered = discoveredOffer(found, settings.fixed.discoveredPrice, settings.ownedBy, names)
  const providers = new Map<string, ProviderSettings>()
  // A `sandbox` of the settings goes before the built-in one: so its pace can be set.
  for (const provider of [...settings.providers, ...(builtin?.providers ?? []), ...discovered.providers]) {
    if (providers.has(provider.name)) continue
    const same = running?.providers.get(provider.name)
    providers.set(provider.name, same !== undefined && isSameProvider(same, provider) ? same : provider)
  }
  return createCatalog([...own, ...discovered.models], [...providers.values()], settings.deadlines, settings.plans)
}
