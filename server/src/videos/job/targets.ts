import { randomFraction, uuidV7 } from '../../lib/ids.ts'
import type { ProviderTarget } from '../../providers/dialect/spec.ts'
import { orderOf } from '../../routing/order.ts'
import type { VideoDependencies } from './dependencies.ts'
import type { Submission } from './video.ts'

/** Targets of a model in the order in which they are asked now. */
export function orderedTargetsOf(dependencies: VideoDependencies, model: string): readonly ProviderTarget[] {
  const { catalog, providers, health, clock, random } = dependencies
  const found = catalog().find(model)
  if (found.kind !== 'found') return []
  const nowMs = clock.monotonicMs()
  return orderOf(providers.targetsOf(found.tier), found.tier.routing.choice, {
    open: (target) => health.of(target).open,
    waitMs: (target) => health.of(target).breaker.waitMs(nowMs),
    random: () => randomFraction(random),
  })
}

/** A new name for a job at a target. */
export function submissionAt({ clock, random }: VideoDependencies, { provider, model }: ProviderTarget): Submission {
  return { id: uuidV7(clock.now(), random), provider: provider.name, model }
}
