/** The rules on instances, and on the money that is held for them, that must hold after every step. */

import { priceInstanceLife } from '../../src/billing/charges/pricing.ts'
import type { RentedRow, Snapshot } from './engine.ts'
import type { AccountRow } from './model/books.ts'

/** Returns the keys whose charges are those of instances. */
export function keysOfRentals(snapshot: Snapshot): ReadonlySet<string> {
  return new Set(snapshot.instances.map(({ keyId }) => keyId))
}

/** Everything that is wrong, in words. `late`: ids of instances that nobody billed in time, whose seconds may be free. */
export function findRentalProblems(snapshot: Snapshot, late: ReadonlySet<string>): string[] {
  return [
    ...snapshot.accounts.flatMap((account) => sumProblems(snapshot, account)),
    ...snapshot.instances.flatMap((instance) => [
      ...holdProblems(snapshot, instance),
      ...chargeProblems(snapshot, instance, late.has(instance.id)),
    ]),
  ]
}

const sum = <T>(rows: readonly T[], pick: (row: T) => bigint) => rows.reduce((total, row) => total + pick(row), 0n)

/** The sums on an account are those of its holds and of its live instances. */
function sumProblems(
  { holds, instances }: Snapshot,
  { organizationId, held, instancesHeld, burn }: AccountRow,
): string[] {
  const inHolds = sum(
    holds.filter((hold) => hold.organizationId === organizationId),
    ({ amount }) => amount,
  )
  const prices = sum(
    instances.filter((each) => each.isLive && each.organizationId === organizationId),
    ({ hourMicrocents }) => hourMicrocents,
  )
  return [
    ...(held === inHolds && instancesHeld === inHolds
      ? []
      : [`${organizationId} has ${held} held, ${instancesHeld} of it for instances; its holds are ${inHolds}`]),
    ...(burn === prices ? [] : [`${organizationId} has a burn of ${burn}, and its live instances cost ${prices}`]),
  ]
}

/** A live instance holds what its seconds cost that are held for and not settled; one that is over holds nothing. */
function holdProblems(
  { holds }: Snapshot,
  { id, hourMicrocents, isLive, settledSecond, heldSecond }: RentedRow,
): string[] {
  const held = sum(
    holds.filter((hold) => hold.id === id),
    ({ amount }) => amount,
  )
  const life = (second: number) => priceInstanceLife(hourMicrocents, second)
  const due = isLive ? life(heldSecond) - life(settledSecond) : 0n
  return held === due ? [] : [`instance ${id} holds ${held}, and should hold ${due}`]
}

/** Its charges are what its settled seconds cost, each once; less only where nobody came in time. */
function chargeProblems(snapshot: Snapshot, instance: RentedRow, isLate: boolean): string[] {
  const { id, keyId, hourMicrocents, settledSecond } = instance
  const charged = sum(
    snapshot.charges.filter((charge) => charge.keyId === keyId),
    ({ cost }) => cost,
  )
  const price = priceInstanceLife(hourMicrocents, settledSecond)
  if (isLate ? charged <= price : charged === price) return []
  return [`instance ${id} is charged ${charged} for ${settledSecond} seconds, which cost ${price}`]
}
