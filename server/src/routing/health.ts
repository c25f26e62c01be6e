import type { Clock } from '../lib/time.ts'
import type { Provider, ProviderTarget } from '../providers/dialect/spec.ts'
import type { AttemptOutcome } from './attempt.ts'
import { Breaker } from './breaker.ts'

/** The state of one target, as this process knows it. */
export interface TargetHealth {
  /** Calls that it is asked or answering at this moment. */
  readonly open: number
  readonly breaker: Breaker
}

/** One call to a target, for its health. */
export interface Asking {
  /** Its answer has begun: the target is well, however long the answer goes on. */
  began(): void
  /** The call is over. Once. */
  ended(outcome: AttemptOutcome): void
}

/** The health of every target that was asked in this process, for as long as its provider's settings stay the same. */
export class Health {
  private readonly clock: Clock
  private readonly breakerFailures: number
  private readonly known = new WeakMap<Provider, Map<string, { open: number; readonly breaker: Breaker }>>()

  /** After `breakerFailures` in a row a target is asked behind the others for a while. */
  constructor(clock: Clock, breakerFailures: number) {
    this.clock = clock
    this.breakerFailures = breakerFailures
  }

  of({ provider, model }: Pick<ProviderTarget, 'provider' | 'model'>): TargetHealth {
    return this.find(provider, model)
  }

  /** Counts a call to a target. */
  ask({ provider, model }: ProviderTarget): Asking {
    const health = this.find(provider, model)
    const { breaker } = health
    health.open += 1
    const isTrial = breaker.asked(this.clock.monotonicMs())
    return {
      began: () => breaker.succeeded(),
      ended: (outcome) => {
        health.open -= 1
        if (outcome === 'unavailable' || outcome === 'timeout' || outcome === 'faulty') {
          breaker.failed(this.clock.monotonicMs(), isTrial)
        } else if (outcome === 'rejected' || outcome === 'context_length') breaker.succeeded()
        else breaker.cancelled(isTrial)
      },
    }
  }

  private find(provider: Provider, model: string) {
    let models = this.known.get(provider)
    if (models === undefined) {
      models = new Map()
      this.known.set(provider, models)
    }
    let health = models.get(model)
    if (health === undefined) {
      health = { open: 0, breaker: new Breaker(this.breakerFailures) }
      models.set(model, health)
    }
    return health
  }
}
