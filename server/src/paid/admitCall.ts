import type { Served } from '../catalog/model.ts'
import type { Result } from '../kernel/result.ts'
import type { CallTrace } from '../kernel/telemetry.ts'
import { type Admitted, admit } from '../money/admit.ts'
import type { Worst } from '../money/gates.ts'
import type { PaidCaller } from './caller.ts'
import type { PaidDependencies, PaidMetrics } from './dependencies.ts'
import { endUncharged } from './trace.ts'

/**
 * Admits a call to a model of the catalog, as `admit` does: at once in nearly every case. Metrics hear of one that had to wait for
 * its money, and they and the trace of one that is refused.
 */
export function admitCall(
  { clock, money, metrics }: Pick<PaidDependencies, 'clock' | 'money' | 'metrics'>,
  { organizationId, keyId }: Pick<PaidCaller, 'organizationId' | 'keyId'>,
  { model, tier }: Served,
  worstAt: (admittedAtMs: number) => Worst,
  trace: CallTrace | null,
): Result<Admitted> | Promise<Result<Admitted>> {
  const startedAtMs = clock.monotonicMs()
  const call = { organizationId, keyId, model: model.id, tier: tier.name, priceHash: tier.priceHash }
  const passed = admit(money, call, worstAt, model)
  if (!(passed instanceof Promise)) return heard(passed, metrics, trace)
  return passed.then((admission) => {
    metrics?.waitedForMoney(clock.monotonicMs() - startedAtMs)
    return heard(admission, metrics, trace)
  })
}

function heard(
  admission: Result<Admitted>,
  metrics: PaidMetrics | undefined,
  trace: CallTrace | null,
): Result<Admitted> {
  if (!admission.ok) {
    metrics?.refusedForMoney(admission.refusal.code)
    endUncharged(trace, admission.refusal.code)
  }
  return admission
}
