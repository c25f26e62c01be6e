/** What the trace of a call hears, whatever the endpoint. */

import type { Served } from '../catalog/model.ts'
import type { CallTrace, TracedCall } from '../kernel/telemetry.ts'
import type { PaidCaller } from './caller.ts'

type Traced = Pick<TracedCall, 'model' | 'tier' | 'organizationId' | 'keyId' | 'traceparent'>

/** Who calls what. */
export function tracedOf(
  { organizationId, keyId, traceparent }: Omit<PaidCaller, 'keep'>,
  { model, tier }: Served,
): Traced {
  return { model: model.id, tier: tier.name, organizationId, keyId, traceparent }
}

/** Ends the trace of a call that came to nothing. `error` is a code of ours, or `cancelled`. */
export function endUncharged(trace: CallTrace | null, error: string): void {
  trace?.end({ error, finishReason: null, usage: null, costMicrocents: null })
}
