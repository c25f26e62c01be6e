import type { Admission } from '../src/billing/admission/admission.ts'
import { type AdmissionContext, type Admitted, admit, begin } from '../src/billing/admission/admit.ts'
import type { WorstCase } from '../src/billing/admission/gates.ts'
import type { Coverable } from '../src/billing/plans/cover.ts'
import type { Result } from '../src/lib/result.ts'

/** Begins a call at this instant, and admits it. `call` is everything of its admission but id and instant. */
export function admitCall(
  money: AdmissionContext,
  call: Omit<Admission, 'chargeId' | 'admittedAtMs'>,
  worst: WorstCase,
  model: Coverable | null = null,
): Result<Admitted> | Promise<Result<Admitted>> {
  return admit(money, { ...begin(money), ...call }, worst, model)
}
