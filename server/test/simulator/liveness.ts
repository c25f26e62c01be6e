/**
 * The rules that must hold when trouble is over: everything comes to rest, and each organization with money is
 * served.
 */

import { NEW_ACCOUNT_CAP_MICROCENTS } from '../../src/billing/admission/gates.ts'
import { utcDay } from '../../src/lib/time.ts'
import { keptOf } from './checker.ts'
import type { Snapshot } from './engine.ts'
import type { History } from './history.ts'
import type { AccountRow } from './model/books.ts'
import type { Script } from './script.ts'

/** After that long without a call every round of housekeeping has run, also past the minute of a restarted database. */
const REST_MS = 200_000

/** Nothing is held, waited for or under way, and every share has come back. */
export async function checkRest(history: History): Promise<string[]> {
  const { world, fleet } = history
  world.note('REST')
  await world.flow(world.elapsedMs + REST_MS)
  // The last one may have ended as it found its slot taken by one that died in its start: a supervisor starts another.
  if (fleet.living.length === 0) {
    fleet.start()
    await world.flow(world.elapsedMs + REST_MS)
  }
  const problems: string[] = []
  if (fleet.living.length === 0) problems.push('no process lives at rest, though nothing keeps it from starting')
  for (const { machine, money, writer } of fleet.living) {
    const name = machine.name
    if (money.waitingCalls !== 0) problems.push(`${name} has ${money.waitingCalls} calls waiting that are not there`)
    if (writer.backlog !== 0) problems.push(`${name} has ${writer.backlog} charges unposted`)
    for (const {
      organizationId,
      openUses,
      waitingCalls,
      heldMicrocents,
      unpostedMicrocents,
    } of money.shares.values()) {
      if (openUses === 0 && waitingCalls === 0 && heldMicrocents === 0n && unpostedMicrocents === 0n) continue
      problems.push(
        `${name} at rest: ${openUses} uses of ${organizationId}, ${waitingCalls} waiting, ${heldMicrocents} held, ${unpostedMicrocents} unposted`,
      )
    }
  }
  const snapshot = await world.engine.snapshot()
  for (const { organizationId, granted } of snapshot.accounts) {
    const left = snapshot.shares.filter((row) => row.organizationId === organizationId && row.granted > 0n)
    const slots = left.map(({ slot }) => slot).join(', ')
    if (granted !== 0n) problems.push(`${granted} of ${organizationId} stay granted to slot ${slots}, unused`)
  }
  for (const { organizationId, slot, spent } of snapshot.unfoldedSpend) {
    if (fleet.lateInTaken.has(slot)) continue
    problems.push(`${spent} of ${organizationId} stay in slot ${slot}, not folded`)
  }
  return problems
}

const PROBE: Script = {
  promptCharacters: 2,
  firstTarget: 'is_not_there',
  pieces: [10],
  ignoresLimit: false,
  ending: 'finish',
  promptTokens: 5,
  cachedTokens: 0,
  output: { kind: 'said', unseenTokens: 0 },
}

/** One call of each organization at each process: served where the headroom covers the worst case, refused where it can't. */
export async function checkLiveness(history: History): Promise<string[]> {
  const { world, fleet, organizations } = history
  world.note('PROBES')
  const problems: string[] = []
  const [served] = history.plan.models
  if (served === undefined) return ['a plan without models']
  for (const gateway of fleet.living) {
    for (const organizationId of organizations) {
      const snapshot = await world.engine.snapshot()
      const account = snapshot.accounts.find((row) => row.organizationId === organizationId)
      if (account === undefined) return [`${organizationId} has no account`]
      const left = headroomOf(snapshot, account, gateway.clock.now())
      const call = history.call(gateway, organizationId, {
        resolved: served,
        script: PROBE,
        maxTokens: 10,
        stream: false,
      })
      await world.flow(world.elapsedMs + 4_000)
      const { wholeMicrocents, firstStepMicrocents } = call.worst
      const mayHaveMore = account.newUntilMs !== null || history.allowances.of(organizationId).lostMicrocents > 0n
      if (call.answer === null) problems.push(`${organizationId} gets no answer from ${gateway.machine.name}`)
      else if (left >= wholeMicrocents && call.answer !== 'whole') {
        problems.push(
          `${organizationId} has headroom of ${left} and is answered ${call.answer} by ${gateway.machine.name}`,
        )
      } else if (!mayHaveMore && left < firstStepMicrocents && call.answer === 'whole') {
        // The spend of a lost slot is taken off the account when the slot is folded next, not before.
        problems.push(`${organizationId} has headroom of ${left} only and is served by ${gateway.machine.name}`)
      }
    }
  }
  return problems
}

/**
 * Returns the least headroom of the gates, from the books alone; nothing but idle money of other processes is
 * granted.
 */
function headroomOf(snapshot: Snapshot, account: AccountRow, nowMs: number): bigint {
  const { organizationId, dailyLimit, monthlyLimit, enforcement } = account
  const today = utcDay(nowMs)
  const charged = (isIn: (day: string) => boolean) =>
    snapshot.charges
      .filter((row) => row.organizationId === organizationId && isIn(utcDay(row.admittedAtMs)))
      .reduce((sum, { cost }) => sum + cost, 0n)
  const unfolded = (from: string) =>
    snapshot.unfoldedSpend
      .filter((row) => row.organizationId === organizationId && row.minuteMs >= Date.parse(`${from}T00:00:00Z`))
      .reduce((sum, { spent }) => sum + spent, 0n)
  const headroom = [keptOf(snapshot, account)]
  if (enforcement !== 'notify_only') {
    if (dailyLimit !== null) headroom.push(dailyLimit - charged((day) => day === today))
    if (monthlyLimit !== null) headroom.push(monthlyLimit - charged((day) => day.slice(0, 7) === today.slice(0, 7)))
  }
  if (account.newUntilMs !== null)
    headroom.push(NEW_ACCOUNT_CAP_MICROCENTS - account.hourSpent - unfolded('1970-01-01'))
  return headroom.reduce((one, other) => (one < other ? one : other))
}
