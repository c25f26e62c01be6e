import { type Catalog, tiersOf } from '../catalog/model.ts'
import type { ProviderSettings } from '../catalog/provider.ts'
import type { Gauge } from '../lib/gauge.ts'
import type { Provider } from '../providers/dialect/spec.ts'
import type { Health, TargetHealth } from './health.ts'

/** One target of the catalog, with its health as this process sees it. */
export interface LookedAtTarget {
  readonly provider: string
  readonly model: string
  readonly look: TargetHealth
}

/** Looks at each target that is offered, once. */
export function* lookAtTargets(
  health: Health,
  catalog: () => Catalog,
  clientFor: (settings: ProviderSettings) => Provider,
): Generator<LookedAtTarget, void> {
  const seen = new Set<string>()
  for (const tier of tiersOf(catalog())) {
    for (const { provider, model } of tier.targets) {
      const settings = catalog().providers.get(provider)
      if (settings === undefined || seen.has(`${provider}/${model}`)) continue
      seen.add(`${provider}/${model}`)
      yield { provider, model, look: health.of({ provider: clientFor(settings), model }) }
    }
  }
}

/** Returns the gauges of the targets that are offered: whether each is well, and the calls that it has open. */
export function targetGauges(looks: () => Iterable<LookedAtTarget>): Gauge[] {
  const each = (figure: (look: TargetHealth) => number) =>
    function* () {
      for (const { provider, model, look } of looks()) yield [{ provider, model }, figure(look)] as const
    }
  const labelNames = ['provider', 'model']
  return [
    {
      name: 'tollgate_target_up',
      help: '0 while a target is left alone because it failed.',
      labelNames,
      readEach: each(({ breaker }) => (breaker.state === 'closed' ? 1 : 0)),
    },
    {
      name: 'tollgate_target_open_calls',
      help: 'Calls that a target is asked or answering.',
      labelNames,
      readEach: each(({ open }) => open),
    },
  ]
}
