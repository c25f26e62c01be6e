import { addressGroup } from '../../lib/clientAddress.ts'
import { createRecent } from '../../lib/recent.ts'
import { type Clock, SECOND_MS } from '../../lib/time.ts'

/** Wrong passwords that an address may show at once, and the time after which it may show one more. */
const WRONG_AT_ONCE = 10
const WRONG_EACH_MS = 6 * SECOND_MS

/** Addresses that are remembered; who is forgotten begins anew. */
const ADDRESSES_MOST = 10_000

export interface WrongPasswords {
  /** Seconds until an address may show a password again; 0: now. */
  waitSeconds(address: string): number
  note(address: string): void
}

/** Counts wrong passwords by address, an IPv6 address by its /56. */
export function countWrongPasswords(clock: Clock): WrongPasswords {
  /** When none of an address count any more. */
  const clearAtMs = createRecent<number>(ADDRESSES_MOST)
  const groupOf = (address: string) => addressGroup(address, 56)
  return {
    waitSeconds(address) {
      const aheadMs = (clearAtMs.get(groupOf(address)) ?? 0) - clock.monotonicMs()
      const overMs = aheadMs - (WRONG_AT_ONCE - 1) * WRONG_EACH_MS
      return overMs <= 0 ? 0 : Math.ceil(overMs / SECOND_MS)
    },
    note(address) {
      const group = groupOf(address)
      const nowMs = clock.monotonicMs()
      clearAtMs.set(group, Math.max(clearAtMs.get(group) ?? 0, nowMs) + WRONG_EACH_MS)
    },
  }
}
