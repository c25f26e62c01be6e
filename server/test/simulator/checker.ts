/** The rules that the books and the processes must keep after every step. */

import { utcDay } from '../../src/lib/time.ts'
import { type Allowances, boundOf } from './bound.ts'
import type { Call } from './call.ts'
import { findChargeProblems } from './charges.ts'
import type { Snapshot } from './engine.ts'
import type { AccountRow, ChargeRow } from './model/books.ts'
import { findRentalProblems, keysOfRentals } from './rentalChecks.ts'

export interface Checked {
  readonly snapshot: Snapshot
  readonly calls: ReadonlyMap<string, Call>
  readonly allowances: Allowances
  /** Instances that nobody billed in time. */
  readonly late: ReadonlySet<string>
  /** The time of the world, since the epoch. */
  readonly nowMs: number
  /** Those whose money can't be short, whatever their calls cost. */
  readonly ampleOrganizations: ReadonlySet<string>
  /** True when everything has come to rest, and nothing is to come. */
  readonly isLast: boolean
}

const HOUR_MS = 3_600_000
/** The clocks of processes differ by less from the world's. */
const CLOCKS_APART_MS = 1_000

/** Everything that is wrong, in words. */
export function findProblems(checked: Checked): string[] {
  const { snapshot, calls, allowances, nowMs } = checked
  const problems: string[] = []
  const byOrganization = Map.groupBy(snapshot.charges, ({ organizationId }) => organizationId)
  for (const account of snapshot.accounts) {
    const charges = byOrganization.get(account.organizationId) ?? []
    problems.push(...identityProblems(snapshot, account, charges), ...windowProblems(snapshot, account, charges))
    problems.push(...overspendProblems(snapshot, account, charges, calls, allowances))
    problems.push(...grantProblems(snapshot, account, allowances, nowMs))
  }
  problems.push(...findRentalProblems(snapshot, checked.late))
  problems.push(...findChargeProblems(snapshot, calls, checked.ampleOrganizations, checked.isLast))
  return problems
}

const sum = <T>(rows: readonly T[], pick: (row: T) => bigint) => rows.reduce((total, row) => total + pick(row), 0n)
const cost = (charge: ChargeRow) => charge.cost

function unfoldedOf(snapshot: Snapshot, organizationId: string, sinceMs = 0) {
  return snapshot.unfoldedSpend.filter((row) => row.organizationId === organizationId && row.minuteMs >= sinceMs)
}

/** Returns the sum of the charges that were posted before a time and aren't folded in yet. */
function spentBefore(snapshot: Snapshot, organizationId: string, untilMs: number): bigint {
  const earlier = snapshot.unfoldedSpend.filter(
    (row) => row.organizationId === organizationId && row.minuteMs < untilMs,
  )
  return sum(earlier, ({ spent }) => spent)
}

/** Returns the balance of an account, with all that is posted counted in. */
export function keptOf(snapshot: Snapshot, account: AccountRow): bigint {
  return account.balance - sum(unfoldedOf(snapshot, account.organizationId), ({ spent }) => spent)
}

function identityProblems(snapshot: Snapshot, account: AccountRow, charges: readonly ChargeRow[]): string[] {
  const { organizationId, granted } = account
  const entries = snapshot.entries.filter((row) => row.organizationId === organizationId)
  const booked = sum(entries, ({ amount }) => amount) - sum(charges, cost)
  const kept = keptOf(snapshot, account)
  const shares = snapshot.shares.filter((row) => row.organizationId === organizationId)
  const inShares = sum(shares, (row) => row.granted)
  return [
    ...(booked === kept ? [] : [`the balance of ${organizationId} is ${kept}, its ledger less its charges ${booked}`]),
    ...(inShares === granted ? [] : [`${organizationId} has granted ${granted}, its shares are ${inShares}`]),
  ]
}

/**
 * The account's figures of its day and month, and the charges of these that are not folded in yet, are the sums of
 * their charges.
 */
function windowProblems(snapshot: Snapshot, account: AccountRow, charges: readonly ChargeRow[]): string[] {
  const { organizationId, day, daySpent, month, monthSpent } = account
  const check = (name: string, folded: bigint, isIn: (atMs: number) => boolean) => {
    const unfolded = unfoldedOf(snapshot, organizationId).filter(({ minuteMs }) => isIn(minuteMs))
    const counted = folded + sum(unfolded, ({ spent }) => spent)
    const charged = sum(
      charges.filter(({ admittedAtMs }) => isIn(admittedAtMs)),
      cost,
    )
    return counted === charged ? [] : [`${organizationId} counts ${counted} in its ${name}, ${charged} was charged`]
  }
  const monthName = month.slice(0, 7)
  return [
    ...check(`day ${day}`, daySpent, (atMs) => utcDay(atMs) === day),
    ...check(`month ${monthName}`, monthSpent, (atMs) => utcDay(atMs).slice(0, 7) === monthName),
  ]
}

function overspendProblems(
  snapshot: Snapshot,
  account: AccountRow,
  charges: readonly ChargeRow[],
  calls: ReadonlyMap<string, Call>,
  allowances: Allowances,
): string[] {
  const { organizationId, dailyLimit, monthlyLimit, enforcement } = account
  const bound = boundOf(allowances, organizationId)
  const rented = keysOfRentals(snapshot)
  const ofCalls = charges.filter(({ keyId }) => !rented.has(keyId))
  const problems: string[] = []
  const judge = (gate: string, over: bigint, allowed: bigint) => {
    allowances.noteOverspend(organizationId, over, allowed)
    if (over > allowed) problems.push(`${organizationId} is ${over} past its ${gate}; at most ${allowed} is stated`)
  }
  judge('balance', -keptOf(snapshot, account), bound.balance)
  if (enforcement !== 'notify_only') {
    const extended = (charge: ChargeRow) => allowances.extendedPastCaps(organizationId, charge, calls.get(charge.keyId))
    const judgeCaps = (gate: string, limit: bigint | null, nameOf: (day: string) => string) => {
      if (limit === null) return
      // A limit that does not stop what runs is none for instances that run.
      const bounded = allowances.of(organizationId).bindsInstances ? charges : ofCalls
      for (const [name, rows] of Map.groupBy(bounded, ({ admittedAtMs }) => nameOf(utcDay(admittedAtMs)))) {
        judge(`${gate} limit of ${name}`, sum(rows, cost) - limit, bound.limits + sum(rows, extended))
      }
    }
    judgeCaps('daily', dailyLimit, (day) => day)
    judgeCaps('monthly', monthlyLimit, (day) => day.slice(0, 7))
  }
  if (account.newUntilMs !== null) {
    const late = sum(ofCalls, (charge) => allowances.spentPastHour(charge, calls.get(charge.keyId)))
    judge('cap of new accounts', mostInAnHour(ofCalls) - allowances.newAccountCap, bound.newAccount + late)
  }
  return problems
}

/**
 * The granted amount never exceeds the headroom of any gate. Checked only where nothing else can be the reason: no
 * slot was lost, nothing debited, no limit lowered, no day gone back; and where limits only block new calls running calls are granted
 * past them. A limit that is lowered after midnight doesn't count the spend of a grant before.
 */
function grantProblems(snapshot: Snapshot, account: AccountRow, allowances: Allowances, nowMs: number): string[] {
  const { organizationId, granted, balance, held, instancesHeld, burn } = account
  const { enforcement, dailyLimit, daySpent, monthlyLimit, monthSpent } = account
  const seen = allowances.of(organizationId)
  if (seen.lostMicrocents > 0n) return []
  const judge = (gate: string, left: bigint, outstanding = granted) =>
    outstanding > (left > 0n ? left : 0n)
      ? [`${organizationId} has ${outstanding} granted, its ${gate} leaves ${left}`]
      : []
  // Money may be held for instances by a day that the account has not come to yet.
  const isOfToday = held === 0n || account.day === utcDay(nowMs + CLOCKS_APART_MS)
  const isStopping = enforcement === 'stop_running' && !seen.wasLowered && !seen.wasSetBack && isOfToday
  const grantedSince = (day: string) => granted - spentBefore(snapshot, organizationId, Date.parse(`${day}T00:00:00Z`))
  const { day, month } = account
  return [
    ...judge('balance', balance - held + seen.debitedMicrocents),
    ...(isStopping && dailyLimit !== null
      ? judge('daily limit', dailyLimit - daySpent - instancesHeld, grantedSince(day))
      : []),
    ...(isStopping && monthlyLimit !== null
      ? judge('monthly limit', monthlyLimit - monthSpent - instancesHeld, grantedSince(month))
      : []),
    ...(account.newUntilMs === null
      ? []
      : judge('cap of new accounts', allowances.newAccountCap - account.hourSpent - burn)),
  ]
}

/** The most that was charged for calls admitted within any 60 minutes. */
function mostInAnHour(charges: readonly ChargeRow[]): bigint {
  const sorted = charges.toSorted((one, other) => one.admittedAtMs - other.admittedAtMs)
  let [first, now, most] = [0, 0n, 0n]
  for (const charge of sorted) {
    now += charge.cost
    for (
      let oldest = sorted[first];
      oldest && oldest.admittedAtMs <= charge.admittedAtMs - HOUR_MS;
      oldest = sorted[first]
    ) {
      now -= oldest.cost
      first += 1
    }
    if (now > most) most = now
  }
  return most
}
