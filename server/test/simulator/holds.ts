/** What was really held for each charge, seen where the hold is spent: apart from what the code says of it itself. */

import { Hold } from '../../src/billing/admission/share.ts'
import type { Writer } from '../../src/billing/charges/writer.ts'

/** Of the hold that was spent last; a charge is handed to the writer in the same turn. */
let lastHeld: { readonly microcents: bigint; readonly isCovered: boolean } | null = null

const { spend } = Hold.prototype
Hold.prototype.spend = function (costMicrocents) {
  lastHeld = { microcents: this.microcents, isCovered: this.isCovered }
  spend.call(this, costMicrocents)
}

/** Tells of each charge that a writer takes what was held for it, in micro-cents; null: nothing was spent for it. */
export function watchHolds(writer: Writer, onTaken: (keyId: string, heldMicrocents: bigint | null) => void): void {
  const post = writer.post.bind(writer)
  writer.post = (charge, ...more) => {
    onTaken(charge.keyId, lastHeld?.microcents ?? null)
    lastHeld = null
    return post(charge, ...more)
  }
}
