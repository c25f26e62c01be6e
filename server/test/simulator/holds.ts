/**
 * The amount that was really held for each charge, seen where the hold is spent: apart from the code's own account of
 * it.
 */

import { MONEY_WAIT_MS } from '../../src/billing/admission/moneyWait.ts'
import { Hold } from '../../src/billing/admission/share.ts'
import type { Writer } from '../../src/billing/charges/writer.ts'

/** Of the hold that was spent last; a charge is handed to the writer in the same turn. */
let lastHeld: { readonly microcents: bigint; readonly needsNoMoney: boolean } | null = null

const { spend } = Hold.prototype
Hold.prototype.spend = function (costMicrocents) {
  lastHeld = { microcents: this.microcents, needsNoMoney: this.needsNoMoney }
  spend.call(this, costMicrocents)
}

/** A charge that a writer takes. */
export interface Taken {
  readonly keyId: string
  /** In micro-cents; null: nothing was spent for it. */
  readonly heldMicrocents: bigint | null
  /** An extension of a call of its organization is not answered yet, and no call waits for it that long. */
  readonly isSlow: boolean
}

/** Tells of each charge that a writer takes, and how it was held. `nowMs` is the time of the writer's clock that no turn changes. */
export function watchHolds(writer: Writer, nowMs: () => number, onTaken: (taken: Taken) => void): void {
  const { post, renew } = { post: writer.post.bind(writer), renew: writer.renew.bind(writer) }
  const extensions = new Map<string, { sinceMs: number; open: number }>()
  writer.renew = (share, microcents, ask) => {
    const renewed = renew(share, microcents, ask)
    if (ask?.kind !== 'extension') return renewed
    const { organizationId } = share
    const waiting = extensions.get(organizationId) ?? { sinceMs: nowMs(), open: 0 }
    waiting.open += 1
    extensions.set(organizationId, waiting)
    const end = () => {
      waiting.open -= 1
      if (waiting.open === 0) extensions.delete(organizationId)
    }
    renewed.then(end, end)
    return renewed
  }
  writer.post = (charge, ...more) => {
    const { keyId, organizationId } = charge
    const sinceMs = extensions.get(organizationId)?.sinceMs
    const isSlow = sinceMs !== undefined && nowMs() - sinceMs >= MONEY_WAIT_MS
    onTaken({ keyId, heldMicrocents: lastHeld?.microcents ?? null, isSlow })
    lastHeld = null
    return post(charge, ...more)
  }
}
