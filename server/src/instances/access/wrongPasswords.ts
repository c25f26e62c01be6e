import { addressGroup } from '../../lib/clientAddress.ts'
import { createRecent } from '../../lib/recent.ts'
import { type Clock, SECOND_MS } from '../../lib/time.ts'

/**
 * Wrong passwords that an address may show at once, and the time after which it may show one more: of one instance, and of all. Passwords
 * are random and long, so this bounds look-ups, not luck. Of one instance it is little. Of all it is much: other people may have the
 * same address, and any page may have a browser show wrong ones.
 */
const OF_ONE_INSTANCE = { atOnce: 10, eachMs: 6 * SECOND_MS }
const OF_ALL = { atOnce: 200, eachMs: 50 }

/** Addresses, and instances of an address, that are remembered; who is forgotten begins anew. */
const REMEMBERED_MOST = 10_000

export interface WrongPasswords {
  /** Seconds until this address may try a password of this instance again; 0: now. */
  waitSeconds(address: string, instanceId: string): number
  note(address: string, instanceId: string): void
}

/** Counts wrong passwords by address, an IPv6 address by its /56. */
export function countWrongPasswords(clock: Clock): WrongPasswords {
  const ofOne = createCount(clock, OF_ONE_INSTANCE)
  const ofAll = createCount(clock, OF_ALL)
  const groupOf = (address: string) => addressGroup(address)
  return {
    waitSeconds(address, instanceId) {
      const group = groupOf(address)
      return Math.max(ofAll.waitSeconds(group), ofOne.waitSeconds(`${group} ${instanceId}`))
    },
    note(address, instanceId) {
      const group = groupOf(address)
      ofAll.note(group)
      ofOne.note(`${group} ${instanceId}`)
    },
  }
}

function createCount(clock: Clock, { atOnce, eachMs }: { readonly atOnce: number; readonly eachMs: number }) {
  /** When none of a key count any more. */
  const clearAtMs = createRecent<number>(REMEMBERED_MOST)
  return {
    waitSeconds(key: string): number {
      const aheadMs = (clearAtMs.get(key) ?? 0) - clock.monotonicMs()
      const overMs = aheadMs - (atOnce - 1) * eachMs
      return overMs <= 0 ? 0 : Math.ceil(overMs / SECOND_MS)
    },
    note(key: string): void {
      const nowMs = clock.monotonicMs()
      clearAtMs.set(key, Math.max(clearAtMs.get(key) ?? 0, nowMs) + eachMs)
    },
  }
}
