/** The books of a database with priced charges in them, posted as processes do. For tests of what reads the books. */

import type { Charge } from '../src/billing/charges/charge.ts'
import { storePriceVersions } from '../src/billing/charges/prices/store.ts'
import { priceTokens } from '../src/billing/charges/pricing.ts'
import { verifyAll } from '../src/billing/ledger/verifyAll.ts'
import { planCheck } from '../src/billing/plans/verify.ts'
import { statementCheck } from '../src/billing/statements/closing/verify.ts'
import { priceHash } from '../src/catalog/price.ts'
import type { Disagreement } from '../src/lib/disagreement.ts'
import type { Clock } from '../src/lib/time.ts'
import type { TurnedClock } from './clock.ts'
import { type House, openHouse, openTill } from './moneyHouse.ts'

export const PRICE = {
  kind: 'tokens' as const,
  inputMicrocents: 123_456_789n,
  outputMicrocents: 987_654_321n,
  cachedInputMicrocents: 23_456_789n,
}

export interface Books extends House {
  /** Posts a charge at the price of {@link PRICE}, as a call admitted at `atMs`; the charge that was posted. */
  post(organizationId: string, atMs: number, more?: Partial<Charge>): Promise<Charge>
  /** All that the verification finds. */
  verify(): Promise<Disagreement[]>
}

export async function openBooks(clock: TurnedClock): Promise<Books> {
  const house = await openHouse(clock)
  const hash = priceHash(PRICE)
  await storePriceVersions(house.database, [{ price: PRICE, priceHash: hash }], clock.now())
  const tills = [openTill(house.database, 0, impatient(clock)), openTill(house.database, 1, impatient(clock))]
  let posted = 0
  return {
    ...house,
    async post(organizationId, atMs, more = {}) {
      posted += 1
      const usage = { promptTokens: 1_000 + posted, cachedPromptTokens: 100, completionTokens: 77 * posted }
      const cost = priceTokens(PRICE, usage)
      const charge = house.charge(organizationId, cost, { usage, priceHash: hash, admittedAtMs: atMs, ...more })
      const till = tills[posted % 2]
      await till?.writer.post(charge, till.share(organizationId))
      return charge
    },
    async verify() {
      const found: Disagreement[] = []
      const checks = [planCheck, statementCheck]
      for await (const each of verifyAll({ database: house.database, pause: async () => {}, checks })) found.push(each)
      return found
    },
  }
}

/** The time of a clock, without its waits: what waits between two tries goes on at once. */
export function impatient(clock: Clock): Clock {
  return {
    now: () => clock.now(),
    monotonicMs: () => clock.monotonicMs(),
    after(_delayMs, callback) {
      const waiting = setImmediate(callback)
      return () => clearImmediate(waiting)
    },
  }
}
