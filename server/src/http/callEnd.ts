/** The two ends of a call before its answer is whole, and the refusal that its client gets. */

import { type CallSignal, OwnSignal } from '../lib/callSignal.ts'
import { type Refusal, Refused, refusal } from '../lib/errors.ts'
import type { OpenCalls } from './openCalls.ts'
import type { RouteRequest } from './pipeline.ts'
import type { ApiKeyPrincipal } from './principal.ts'

const KEY_ENDED = refusal(
  'invalid_api_key',
  'The API key was revoked, or has expired, while this call was under way, so the call ends here. Work that a model had done for it is charged. Use another key.',
)

/** The two ends of a call before its answer is whole: its client leaves, or its key may not be used any more. */
export interface EarlyEnd {
  /** Aborted when the call must end. Its client's leaving ends no call that outlives it, such as one with an Idempotency-Key (C3). */
  readonly signal: CallSignal
  /** The refusal that the client gets in place of an answer, once its API key has ended the call; null before. */
  readonly refusal: Refusal | null
  /** Calls back when its API key ends it. At most one callback. */
  onKeyEnded(callback: (refusal: Refusal) => void): void
  /** The call is over: nothing ends it any more. May be called more than once. */
  close(): void
}

/**
 * Watches a call until it is closed. `gone` is aborted when its client has left. `outlivesClient`: that ends nothing, since its answer is
 * kept, or since only its end tells its price.
 */
export function watchCall(
  { openCalls, principal }: Pick<RouteRequest, 'openCalls' | 'principal'>,
  outlivesClient: boolean,
  gone: CallSignal,
): EarlyEnd {
  return new WatchedCall(openCalls, principal, outlivesClient ? null : gone)
}

class WatchedCall extends OwnSignal implements EarlyEnd {
  refusal: Refusal | null = null
  private readonly gone: CallSignal | null
  private readonly forget: () => void
  private told: ((refusal: Refusal) => void) | null = null
  private isClosed = false

  constructor(openCalls: OpenCalls, principal: ApiKeyPrincipal, gone: CallSignal | null) {
    super()
    this.gone = gone
    this.forget = openCalls.add(principal, this.endWithKey)
    // It may have left while its key was looked up; no event tells of that again.
    if (gone?.aborted) this.leave()
    else gone?.addEventListener('abort', this.leave)
  }

  get signal(): CallSignal {
    return this
  }

  onKeyEnded(callback: (refusal: Refusal) => void): void {
    this.told = callback
  }

  close(): void {
    this.isClosed = true
    this.forget()
  }

  // The listener is not removed: that takes time, and it goes with its request.
  private readonly leave = (): void => {
    if (!this.isClosed) this.abort(this.gone?.reason)
  }

  private readonly endWithKey = (): void => {
    this.refusal = KEY_ENDED
    this.abort(new Refused(KEY_ENDED))
    this.told?.(KEY_ENDED)
  }
}
