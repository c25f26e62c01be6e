/** The noun of a deposit: what an organization wants to send, and the address for it. */

import type { DepositAsset, DepositChain } from '../../../catalog/depositChain.ts'
import { DAY_MS } from '../../../lib/time.ts'

/** How long an address is watched after its deposit has expired. */
export const WATCHED_AFTER_MS = 30 * DAY_MS

/** All stablecoins that are taken count in millionths of a dollar. */
export const TOKEN_DECIMALS = 6
export const UNITS_PER_CENT = 10_000n
export const MICROCENTS_PER_UNIT = 100n

export const DEPOSIT_STATUSES = [
  'created',
  'detected',
  'confirming',
  'settled',
  'screening',
  'held_screening',
  'credited',
  'credited_underpaid',
  'credited_overpaid',
  'expired',
  'expired_received',
  'failed',
  'failed_screening',
] as const

export type DepositStatus = (typeof DEPOSIT_STATUSES)[number]

export interface Deposit {
  readonly id: string
  readonly organizationId: string
  readonly status: DepositStatus
  readonly chain: DepositChain
  readonly asset: DepositAsset
  /** The amount that was asked for. */
  readonly amountCents: number
  /** As the chain compares them: of the EVM in lower case. */
  readonly address: string
  /** Beneath the extended public key. Null: the address is from the pool. */
  readonly addressIndex: number | null
  /** Of the extended public key that the address is made from. Null: it is from the pool. */
  readonly keyFingerprint: string | null
  readonly creditedMicrocents: bigint
  readonly txHash: string | null
  readonly createdAtMs: number
  readonly expiresAtMs: number
  readonly watchedUntilMs: number
}

/** A deposit as it is read to be shown. */
export interface FoundDeposit extends Deposit {
  /** The chain has taken a payment back. */
  readonly hasDropped: boolean
}

/**
 * The status as it is now: one that nobody paid expires by itself, or fails where the chain has taken a payment back, whether a
 * watcher has written that down or not.
 */
export function statusAt(
  { status, expiresAtMs, hasDropped }: Pick<FoundDeposit, 'status' | 'expiresAtMs' | 'hasDropped'>,
  nowMs: number,
): DepositStatus {
  if (status !== 'created' || nowMs < expiresAtMs) return status
  return hasDropped ? 'failed' : 'expired'
}

/** An amount of tokens as an exact decimal text, such as `25.00`: at least two decimals, and no more than it needs. */
export function printUnits(units: bigint): string {
  const digits = units.toString().padStart(TOKEN_DECIMALS + 1, '0')
  const whole = digits.slice(0, -TOKEN_DECIMALS)
  const decimals = digits.slice(-TOKEN_DECIMALS).replace(/0{1,4}$/, '')
  return `${whole}.${decimals}`
}

/** Reads such a text; null where it is none. */
export function parseUnits(text: string): bigint | null {
  const [, whole, decimals = ''] = /^(\d{1,15})(?:\.(\d{1,6}))?$/.exec(text) ?? []
  return whole === undefined ? null : BigInt(whole + decimals.padEnd(TOKEN_DECIMALS, '0'))
}

/** Returns an address as people are shown it. */
export type ShowAddress = (chain: DepositChain, address: string) => string
