/**
 * Finds out if the database still has the charges that it had confirmed (E21). A database that was restored from a
 * backup has not, and neither has a standby that was promoted and had not received all of its primary.
 */

import type { Queryable } from '../../infra/postgres/database.ts'
import { type Clock, HOUR_MS } from '../../lib/time.ts'
import type { SlotCharges } from './charge.ts'
import { findCharge, readSlotCharges } from './store.ts'

/** The newest charge of a process that has been idle for longer is not looked for: retention may have dropped its day. */
const LOOKED_FOR_MS = HOUR_MS

/** A charge by which the newest of a slot is found again. */
export interface NewestCharge {
  readonly chargeId: string
  readonly admittedAtMs: number
}

export interface Lost {
  /** The charges that are missing, at least. */
  readonly charges: number
  readonly slot: number
  /** The newest that the database had confirmed before. */
  readonly newestChargeId: string
}

interface Confirmed {
  readonly slot: number
  readonly charges: bigint
  readonly newest: NewestCharge
}

/** The charges that the database has confirmed to this process. Call its methods only while no batch is under way. */
export class KeptCharges {
  private readonly clock: Clock
  private confirmed: Confirmed | null = null

  constructor(clock: Clock) {
    this.clock = clock
  }

  /** Takes what the database says of a batch that it has posted; returns what it must have lost before. */
  take(slot: number, { charges, inserted }: SlotCharges, newest: NewestCharge): Lost | null {
    const { confirmed } = this
    this.confirmed = { slot, charges, newest }
    if (confirmed === null || confirmed.slot !== slot) return null
    return lostOf(confirmed, confirmed.charges + inserted - charges)
  }

  /** Asks the database what it has; returns what it has lost. */
  async compare(db: Queryable): Promise<Lost | null> {
    const { confirmed } = this
    if (confirmed === null) return null
    const charges = await readSlotCharges(db, confirmed.slot)
    if (charges < confirmed.charges) {
      this.confirmed = { ...confirmed, charges }
      return lostOf(confirmed, confirmed.charges - charges)
    }
    // Another process may have had the slot, and posted more than was lost.
    const { chargeId, admittedAtMs } = confirmed.newest
    if (this.clock.now() - admittedAtMs > LOOKED_FOR_MS) return null
    if ((await findCharge(db, chargeId, admittedAtMs)) !== null) return null
    this.confirmed = null
    return lostOf(confirmed, 1n)
  }
}

function lostOf({ slot, newest }: Confirmed, charges: bigint): Lost | null {
  return charges > 0n ? { charges: Number(charges), slot, newestChargeId: newest.chargeId } : null
}
