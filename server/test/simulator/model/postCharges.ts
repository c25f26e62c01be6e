import type { Books } from './books.ts'
import { StatementError } from './errors.ts'
import type { View } from './tables.ts'
import type { Parameters } from './wire.ts'

const MINUTE_MS = 60_000

/** A batch of charges, all or none: a charge that is there already counts nowhere again. */
export function postCharges(view: View, books: Books, p: Parameters): unknown[] {
  const slot = p.number(13)
  const columns = { at: p.list(1), id: p.list(2), organization: p.list(3), key: p.list(4) }
  const costs = p.amounts(10)
  refuseZeroBytes(p.list(15))
  let inserted = 0n
  for (const [index, id] of columns.id.entries()) {
    const admittedAt = columns.at[index] ?? ''
    const cost = costs[index] ?? 0n
    if (view.get(books.partitions, admittedAt.slice(0, 10)) === undefined) {
      throw new StatementError('no partition of relation "charges" found for row', '23514', true)
    }
    if (cost < 0n) throw new StatementError('new row violates check constraint', '23514')
    const admittedAtMs = Date.parse(admittedAt)
    const name = `${id}/${admittedAtMs}`
    if (id === null || view.get(books.charges, name) !== undefined) continue
    const organizationId = columns.organization[index] ?? ''
    inserted += 1n
    view.put(books.charges, name, { id, organizationId, keyId: columns.key[index] ?? '', admittedAtMs, cost })
    const minuteMs = Math.floor(admittedAtMs / MINUTE_MS) * MINUTE_MS
    const key = `${organizationId}/${slot}/${minuteMs}`
    const spent = (view.get(books.unfoldedSpend, key)?.spent ?? 0n) + cost
    view.put(books.unfoldedSpend, key, { organizationId, slot, minuteMs, spent })
  }
  const charges = (view.get(books.slotCharges, String(slot)) ?? 0n) + inserted
  if (inserted > 0n && slot >= 0) view.put(books.slotCharges, String(slot), charges)
  return [{ charges, inserted }]
}

/** Numbers for what charges have in common; nothing here asks what they stand for. */
export function findServedModels(_: View, __: Books, p: Parameters): unknown[] {
  refuseZeroBytes(p.list(1))
  return p.list(1).map((_, index) => ({ place: BigInt(index + 1), id: index + 1 }))
}

function refuseZeroBytes(models: readonly (string | null)[]): void {
  if (!models.some((model) => model?.includes('\0') === true)) return
  throw new StatementError('invalid byte sequence for encoding "UTF8": 0x00', '22021')
}
