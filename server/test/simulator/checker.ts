/** What must be true of the books and of the processes after every step. */

import { utcDay } from '../../src/kernel/time.ts'
import { type Allowances, boundOf } from './bound.ts'
import type { Call } from './call.ts'
import type { Snapshot } from './engine.ts'
import type { AccountRow, ChargeRow } from './model/books.ts'
import { costOf, PROMPT_TOKENS_AT_MOST } from './script.ts'

export interface Checked {
  readonly snapshot: Snapshot
  readonly calls: ReadonlyMap<string, Call>
  readonly allowances: Allowances
}

const HOUR_MS = 3_600_000

/** Everything that is wrong, in words. */
export function findProblems(checked: Checked): string[] {
  const { snapshot, calls, allowances } = checked
  const problems: string[] = []
  const byOrganization = Map.groupBy(snapshot.charges, ({ organizationId }) => organizationId)
  for (const account of snapshot.accounts) {
    const charges = byOrganization.get(account.organizationId) ?? []
    problems.push(...identityProblems(snapshot, account, charges), ...windowProblems(snapshot, account, charges))
    problems.push(...overspendProblems(snapshot, account, charges, calls, allowances))
    problems.push(...grantProblems(account, calls, allowances))
  }
  problems.push(...chargeProblems(snapshot, calls))
  return problems
}

const sum = <T>(rows: readonly T[], pick: (row: T) => bigint) => rows.reduce((total, row) => total + pick(row), 0n)
const cost = (charge: ChargeRow) => charge.cost

function slicesOf(snapshot: Snapshot, organizationId: string, sinceMs = 0) {
  return snapshot.slices.filter((row) => row.organizationId === organizationId && row.minuteMs >= sinceMs)
}

/** What an account has, with all that is posted counted in. */
export function keptOf(snapshot: Snapshot, account: AccountRow): bigint {
  return account.balance - sum(slicesOf(snapshot, account.organizationId), ({ spent }) => spent)
}

function identityProblems(snapshot: Snapshot, account: AccountRow, charges: readonly ChargeRow[]): string[] {
  const { organizationId, allotted } = account
  const entries = snapshot.entries.filter((row) => row.organizationId === organizationId)
  const booked = sum(entries, ({ amount }) => amount) - sum(charges, cost)
  const kept = keptOf(snapshot, account)
  const allotments = snapshot.allotments.filter((row) => row.organizationId === organizationId)
  const granted = sum(allotments, (row) => row.granted)
  return [
    ...(booked === kept ? [] : [`the balance of ${organizationId} is ${kept}, its ledger less its charges ${booked}`]),
    ...(granted === allotted ? [] : [`${organizationId} has allotted ${allotted}, its allotments are ${granted}`]),
  ]
}

/** What stands on the account of its day and month, and what is not folded in yet, is what was charged. */
function windowProblems(snapshot: Snapshot, account: AccountRow, charges: readonly ChargeRow[]): string[] {
  const { organizationId, day, daySpent, month, monthSpent } = account
  const check = (name: string, from: string, folded: bigint) => {
    const fromMs = Date.parse(`${from}T00:00:00Z`)
    const counted = folded + sum(slicesOf(snapshot, organizationId, fromMs), ({ spent }) => spent)
    const charged = sum(
      charges.filter(({ admittedAtMs }) => admittedAtMs >= fromMs),
      cost,
    )
    return counted === charged
      ? []
      : [`${organizationId} counts ${counted} since ${from} (${name}), ${charged} was charged`]
  }
  return [...check('day', day, daySpent), ...check('month', month, monthSpent)]
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
      for (const [name, rows] of Map.groupBy(charges, ({ admittedAtMs }) => nameOf(utcDay(admittedAtMs)))) {
        judge(`${gate} limit of ${name}`, sum(rows, cost) - limit, bound.caps + sum(rows, extended))
      }
    }
    judgeCaps('daily', dailyLimit, (day) => day)
    judgeCaps('monthly', monthlyLimit, (day) => day.slice(0, 7))
  }
  if (account.newUntilMs !== null)
    judge('cap of new accounts', mostInAnHour(charges) - allowances.newAccountCap, bound.newAccount)
  return problems
}

/**
 * What is allotted never exceeds what any gate leaves, but for what answers cost beyond their holds. Said only where
 * nothing else can be the reason: no slot was lost, nothing debited, no limit lowered; and where caps only block launches
 * running calls are granted past them.
 */
function grantProblems(account: AccountRow, calls: ReadonlyMap<string, Call>, allowances: Allowances): string[] {
  const { organizationId, allotted, balance, enforcement, dailyLimit, daySpent, monthlyLimit, monthSpent } = account
  const seen = allowances.of(organizationId)
  if (seen.lostMicrocents > 0n) return []
  const beyond = beyondHolds([...calls.values()].filter((call) => call.organizationId === organizationId))
  const judge = (gate: string, room: bigint) =>
    allotted > (room > 0n ? room : 0n) + beyond
      ? [`${organizationId} has ${allotted} allotted, its ${gate} leaves ${room}`]
      : []
  const isStopping = enforcement === 'stop_running' && seen.loweredMicrocents === 0n
  return [
    ...judge('balance', balance + seen.debitedMicrocents),
    ...(isStopping && dailyLimit !== null ? judge('daily limit', dailyLimit - daySpent) : []),
    ...(isStopping && monthlyLimit !== null ? judge('monthly limit', monthlyLimit - monthSpent) : []),
    ...(account.newUntilMs === null ? [] : judge('cap of new accounts', allowances.newAccountCap - account.hourSpent)),
  ]
}

/** What answers may cost beyond their holds: tokens that upstreams report and nobody saw, and prompts above the bound. */
export function beyondHolds(calls: readonly Call[]): bigint {
  return sum(calls, ({ served, script, admittedAtMs }) => {
    const prompt = Math.max(script.promptTokens - PROMPT_TOKENS_AT_MOST, 0)
    return costOf(served, admittedAtMs, prompt, 0, script.unseenTokens) + 1n
  })
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

/** One charge a call at most, what it was told; and no whole answer without it. */
function chargeProblems(snapshot: Snapshot, calls: ReadonlyMap<string, Call>): string[] {
  const problems: string[] = []
  const charged = new Map<string, ChargeRow>()
  for (const charge of snapshot.charges) {
    if (charged.has(charge.keyId)) problems.push(`call ${charge.keyId} is charged twice`)
    charged.set(charge.keyId, charge)
  }
  const dead = new Set(snapshot.deadKeyIds)
  for (const call of calls.values()) {
    if (call.wasAdmitted && call.mustNotStart !== null)
      problems.push(`call ${call.keyId} was let in though ${call.mustNotStart}`)
    if (call.told === null) continue
    const { usage, costMicrocents } = call.told
    const charge = charged.get(call.keyId)
    if (charge === undefined && !dead.has(call.keyId))
      problems.push(`call ${call.keyId} has its whole answer and no charge`)
    const cost = costOf(
      call.served,
      call.admittedAtMs,
      usage.promptTokens,
      usage.cachedPromptTokens,
      usage.completionTokens,
    )
    if (cost !== costMicrocents) problems.push(`call ${call.keyId} costs ${cost} and was told ${costMicrocents}`)
    if (charge !== undefined && charge.cost !== costMicrocents) {
      problems.push(`call ${call.keyId} was charged ${charge.cost} and told ${costMicrocents}`)
    }
  }
  return problems
}
