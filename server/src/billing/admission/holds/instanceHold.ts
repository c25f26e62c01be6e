/**
 * The hold of an instance, for its next minutes: a row of `holds`, and its amount in two sums of the account. Where reaching a
 * limit stops what runs, it counts against the limit too. Its callers have the account locked.
 */

import type { Transaction } from '../../../infra/postgres/database.ts'
import { windowsAt } from '../accounts/windows.ts'
import { NEW_ACCOUNT_CAP_MICROCENTS } from '../gates.ts'
import { addInstanceHeld, subtractInstanceHeld, writeInstanceHold } from './store.ts'

export interface InstanceHold {
  /** That of the instance. */
  readonly id: string
  readonly organizationId: string
  /** The amount that it holds now, in micro-cents. */
  readonly microcents: bigint
}

/**
 * Holds money for a new instance and adds its hourly price to the burn. False: a gate leaves less, and nothing has changed. Of a
 * new account, the cap counts the hourly price in place of what is held.
 */
export async function placeInstanceHold(
  tx: Transaction,
  hold: InstanceHold,
  hourMicrocents: bigint,
  nowMs: number,
): Promise<boolean> {
  if (!(await reserve(tx, hold, hold.microcents, hourMicrocents, true, nowMs))) return false
  await writeInstanceHold(tx, hold)
  return true
}

/** Holds `more` for an instance that lives. False: a gate leaves less, and nothing has changed. */
export async function extendInstanceHold(
  tx: Transaction,
  hold: InstanceHold,
  more: bigint,
  nowMs: number,
): Promise<boolean> {
  if (!(await reserve(tx, hold, more, 0n, false, nowMs))) return false
  await writeInstanceHold(tx, { ...hold, microcents: hold.microcents + more })
  return true
}

/** Gives `microcents` of a hold back to the account, such as those that a charge has just taken off its balance. */
export async function shrinkInstanceHold(tx: Transaction, hold: InstanceHold, microcents: bigint): Promise<void> {
  await subtractInstanceHeld(tx, { ...hold, microcents, hourMicrocents: 0n })
  await writeInstanceHold(tx, { ...hold, microcents: hold.microcents - microcents })
}

/** Ends a hold, and takes the hourly price of the instance off the burn. */
export async function endInstanceHold(tx: Transaction, hold: InstanceHold, hourMicrocents: bigint): Promise<void> {
  await subtractInstanceHeld(tx, { ...hold, hourMicrocents })
  await writeInstanceHold(tx, { ...hold, microcents: 0n })
}

function reserve(
  tx: Transaction,
  { organizationId }: InstanceHold,
  microcents: bigint,
  hourMicrocents: bigint,
  isNewInstance: boolean,
  nowMs: number,
): Promise<boolean> {
  const { at, day, month } = windowsAt(nowMs)
  const asked = { organizationId, microcents, hourMicrocents, isNewInstance, at, day, month }
  return addInstanceHeld(tx, { ...asked, newAccountCapMicrocents: NEW_ACCOUNT_CAP_MICROCENTS })
}
