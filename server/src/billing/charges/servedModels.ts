/**
 * Rows of `served_models`: what many charges have in common, namely the model and tier that were asked for, the price version and
 * the target that answered. A charge names its row by a number.
 */

import type { Queryable } from '../../infra/postgres/database.ts'
import { toHex } from '../../lib/ids.ts'
import type { Charge } from './charge.ts'
import { findServedModels } from './store.ts'

/** More than any operator's models, prices and targets; beyond it the numbers are looked up again. */
const KNOWN_MOST = 10_000

/** Numbers of rows that are known to be there, by what they stand for. */
export class ServedModels {
  private readonly numbers = new Map<string, number>()

  /** Throws where {@link ensure} has not been called for the charge. */
  numberOf(charge: Charge): number {
    const number = this.numbers.get(nameOf(charge))
    if (number === undefined) throw new Error('the row of served_models of a charge is not known')
    return number
  }

  /** Looks up the rows of some charges, and adds those that are missing. Never within a transaction that may be undone. */
  async ensure(db: Queryable, charges: readonly Charge[]): Promise<void> {
    const missing = new Map<string, Charge>()
    for (const charge of charges) {
      const name = nameOf(charge)
      if (!this.numbers.has(name)) missing.set(name, charge)
    }
    if (missing.size === 0) return
    if (this.numbers.size + missing.size > KNOWN_MOST && this.numbers.size > 0) {
      this.forget()
      return this.ensure(db, charges)
    }
    const found = await findServedModels(db, [...missing.values()])
    const names = [...missing.keys()]
    for (const { place, id } of found) this.numbers.set(names[Number(place) - 1] ?? '', id)
  }

  /** Forgets them all: another database may answer from now on, in which they are others. */
  forget(): void {
    this.numbers.clear()
  }
}

/** Price hashes in hex. All charges at one price of a catalog have the same object. */
const HEXES = new WeakMap<Uint8Array, string>()

function hexOf(priceHash: Uint8Array): string {
  let hex = HEXES.get(priceHash)
  if (hex === undefined) {
    hex = toHex(priceHash)
    HEXES.set(priceHash, hex)
  }
  return hex
}

function nameOf({ model, tier, priceHash, target }: Charge): string {
  return `${model}\n${tier}\n${hexOf(priceHash)}\n${target}`
}
