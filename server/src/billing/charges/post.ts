import type { Queryable } from '../../infra/postgres/database.ts'
import type { Charge, SlotCharges } from './charge.ts'
import { ServedModels } from './servedModels.ts'
import { insertCharges } from './store.ts'

/** Posts a batch of charges, as `insertCharges` does. `served` knows the rows that they name; left out: they are looked up first. */
export async function postCharges(
  db: Queryable,
  slot: number,
  charges: readonly Charge[],
  postedAtMs: number,
  served?: ServedModels,
): Promise<SlotCharges> {
  const known = served ?? new ServedModels()
  if (served === undefined) await known.ensure(db, charges)
  const numbers = charges.map((charge) => known.numberOf(charge))
  return await insertCharges(db, slot, charges, numbers, postedAtMs)
}
