import type { InstanceRow } from '../../../src/instances/job/row.ts'
import { Table } from './tables.ts'

/** Rows as the migrations define them, as far as money is decided on them. Days are `YYYY-MM-DD`, instants milliseconds. */
export interface AccountRow {
  readonly organizationId: string
  readonly balance: bigint
  readonly granted: bigint
  /** Held by durable holds; the part of instances; and the hourly prices of live instances. */
  readonly held: bigint
  readonly instancesHeld: bigint
  readonly burn: bigint
  readonly day: string
  readonly daySpent: bigint
  readonly month: string
  readonly monthSpent: bigint
  readonly newUntilMs: number | null
  readonly hourSpent: bigint
  readonly monthlyLimit: bigint | null
  readonly dailyLimit: bigint | null
  readonly enforcement: string
  readonly autoTerminateHours: number | null
  readonly toldBelow: bigint | null
}

export interface OrganizationRow {
  readonly id: string
  readonly name: string
  readonly standing: string
  readonly createdAtMs: number
  readonly firstPaidAtMs: number | null
}

export interface ShareRow {
  readonly organizationId: string
  readonly slot: number
  readonly granted: bigint
}

export interface UnfoldedSpendRow {
  readonly organizationId: string
  readonly slot: number
  readonly minuteMs: number
  readonly spent: bigint
}

export interface MinuteRow {
  readonly organizationId: string
  readonly minuteMs: number
  readonly spent: bigint
}

export interface EntryRow {
  readonly organizationId: string
  readonly amount: bigint
  readonly kind: string
  readonly source: string
}

export interface ChargeRow {
  readonly id: string
  readonly organizationId: string
  readonly keyId: string
  readonly admittedAtMs: number
  readonly cost: bigint
}

export interface HoldRow {
  readonly id: string
  readonly organizationId: string
  readonly amount: bigint
}

/** The books of the model. */
export class Books {
  readonly organizations = new Table<OrganizationRow>()
  readonly accounts = new Table<AccountRow>()
  readonly shares = new Table<ShareRow>()
  readonly unfoldedSpend = new Table<UnfoldedSpendRow>()
  readonly minutes = new Table<MinuteRow>()
  readonly entries = new Table<EntryRow>()
  readonly charges = new Table<ChargeRow>()
  readonly holds = new Table<HoldRow>()
  readonly instances = new Table<InstanceRow>()
  readonly dead = new Table<{ readonly id: string; readonly keyId: string }>()
  readonly slots = new Table<{ readonly slot: number; readonly takenAtMs: number }>()
  /** Charges that were ever posted under a slot. */
  readonly slotCharges = new Table<bigint>()
  readonly prices = new Table<string>()
  /** By organization, kind and the start of the period: what somebody was told, or is to be. */
  readonly notices = new Table<string>()
  readonly partitions = new Table<string>()
}
