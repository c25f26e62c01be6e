import type { Served } from '../catalog/model.ts'
import type { CallTrace } from '../kernel/telemetry.ts'
import type { ChatTarget } from '../routing/attempt.ts'
import type { OpenChatOptions } from '../routing/open.ts'
import type { PaidDependencies } from './dependencies.ts'

/** How a call goes to the targets of its tier, by the catalog in force now. `signal` says that its client is gone. */
export function routeOf(
  { catalog, health, random, clock, log, metrics }: PaidDependencies,
  { tier }: Served,
  signal: AbortSignal,
  trace: CallTrace | null,
): OpenChatOptions {
  return {
    signal,
    deadlines: catalog().deadlines,
    plan: tier.routing,
    health,
    random,
    clock,
    log,
    metrics,
    onAttempt:
      trace === null ? undefined : ({ upstream, model }, ...how) => trace.attempt(upstream.name, model, ...how),
  }
}

/** A target as a charge names it, for the operator. */
export function targetName({ upstream, model }: ChatTarget): string {
  return `${upstream.name}/${model}`
}
