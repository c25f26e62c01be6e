import { sandboxOffer } from './builtin.ts'
import { type Discovered, discoveredOffer } from './discovered.ts'
import { type Catalog, createCatalog } from './model.ts'
import type { Settings } from './settings.ts'
import { isSameUpstream, type UpstreamSettings } from './upstream.ts'

/**
 * The catalog of `settings`, the built-in models where they name none, and what was found at start. An upstream that
 * reaches the same as one of the `running` catalog is the same object as there, so that what runs for it goes on.
 */
export function catalogOf(settings: Settings, found: readonly Discovered[], running: Catalog | null): Catalog {
  const builtin = settings.models === null ? sandboxOffer(settings.ownedBy) : null
  const own = builtin?.models ?? settings.models ?? []
  const names = own.flatMap((model) => [model.id, ...model.aliases])
  const discovered = discoveredOffer(found, settings.fixed.discoveredPrice, settings.ownedBy, names)
  const upstreams = new Map<string, UpstreamSettings>()
  // A `sandbox` of the settings goes before the built-in one: so its pace can be set.
  for (const upstream of [...settings.upstreams, ...(builtin?.upstreams ?? []), ...discovered.upstreams]) {
    if (upstreams.has(upstream.name)) continue
    const same = running?.upstreams.get(upstream.name)
    upstreams.set(upstream.name, same !== undefined && isSameUpstream(same, upstream) ? same : upstream)
  }
  return createCatalog([...own, ...discovered.models], [...upstreams.values()], settings.deadlines, settings.plans)
}
