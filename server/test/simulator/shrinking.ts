/** Running calls that must be shrunk where limits stop them and a gate is passed (P5). */

import { largest } from '../../src/lib/money.ts'
import { utcDay } from '../../src/lib/time.ts'
import { unfoldedSum } from './bound.ts'
import type { Call } from './call.ts'
import type { Snapshot } from './engine.ts'
import type { Gateway } from './gateway.ts'
import type { History } from './history.ts'
import type { Machine } from './machine.ts'
import type { AccountRow } from './model/books.ts'
import { costOf, promptAtMost, STEP_TOKENS } from './script.ts'
import { usageOfAnswer } from './usage.ts'

/**
 * To be called when everything under way has arrived, and 2 s have gone since a limit was lowered, a balance debited or
 * `stop_running` set: says whose holds were not shrunk, and tightens the bound of those organizations by the others.
 */
export function checkShrunk(history: History, snapshot: Snapshot): string[] {
  const problems: string[] = []
  for (const account of snapshot.accounts) {
    const sinceMs = history.allowances.shrunkSinceMs(account.organizationId, history.world.elapsedMs)
    if (sinceMs !== null) problems.push(...checkAccount(history, snapshot, account, sinceMs))
  }
  return problems
}

function checkAccount(history: History, snapshot: Snapshot, account: AccountRow, sinceMs: number): string[] {
  const { world, fleet, allowances, calls } = history
  const { organizationId } = account
  const [operator] = world.machines
  const problems: string[] = []
  let outstanding = 0n
  // Money that a process may not spend, since a gate is passed, is no reason to shrink its holds.
  let unspendable = 0n
  for (const gateway of fleet.living) {
    const { machine, money, slot, writer } = gateway
    // Its writer may be waiting until it tries a batch again.
    const hasHeard = fleet.isSteady(machine) && writer.backlog === 0 && !isTroubled(history, machine, sinceMs)
    if (operator === undefined || isTroubled(history, operator, sinceMs) || !hasHeard) {
      const row = snapshot.shares.find((each) => each.organizationId === organizationId && each.slot === slot.number)
      outstanding += (row?.granted ?? 0n) - unfoldedSum(snapshot, organizationId, slot.number)
      continue
    }
    const share = money.shares.get(organizationId)
    if (share === undefined) continue
    const needed = neededBy(gateway, organizationId, calls.values())
    const { heldMicrocents, unpostedMicrocents, spendableMicrocents, extendableMicrocents } = share
    unspendable += largest(spendableMicrocents, 0n) - largest(extendableMicrocents, 0n)
    outstanding += unpostedMicrocents + (heldMicrocents < needed ? heldMicrocents : needed)
    if (heldMicrocents <= needed) continue
    problems.push(`${machine.name} holds ${heldMicrocents} of ${organizationId}, for which ${needed} is enough`)
  }
  allowances.tighten(snapshot, account, outstanding)
  return isPassed(history, snapshot, account, unspendable) ? problems : []
}

/** Something that was to reach it may have been lost, or waits for somebody else. */
function isTroubled({ world }: History, machine: Machine, sinceMs: number): boolean {
  const isWaiting = world.asked.some((asked) => asked.machine === machine)
  return machine.isPaused || machine.troubledAtMs >= sinceMs || isWaiting
}

/**
 * Returns the amount that answers have used, the prompt at least, and one step each; all of a call that is being
 * charged.
 */
function neededBy({ machine }: Gateway, organizationId: string, calls: Iterable<Call>): bigint {
  let needed = 0n
  for (const call of calls) {
    if (call.machine !== machine || call.organizationId !== organizationId) continue
    // The hold of a charge that was taken has ended.
    if (call.answer !== null || !call.wasAdmitted || call.heldMicrocents !== null) continue
    const { resolved: served, script, admittedAtMs, tokensTaken, maxTokens, isOver } = call
    const tokens = Math.min(tokensTaken + STEP_TOKENS, maxTokens ?? Number.POSITIVE_INFINITY)
    const prompt = promptAtMost(script.promptCharacters)
    needed += isOver ? neededAtEnd(call) : costOf(served, admittedAtMs, prompt, 0, tokens)
  }
  return needed
}

/** Returns the whole worst case, or the price if the hold is extended beyond it. */
function neededAtEnd(call: Call): bigint {
  const { promptTokens, cachedPromptTokens, completionTokens } = usageOfAnswer({
    ...call,
    tokensRead: call.tokensTaken,
  })
  const price = costOf(call.resolved, call.admittedAtMs, promptTokens, cachedPromptTokens, completionTokens)
  const { wholeMicrocents } = call.worst
  return price > wholeMicrocents ? price : wholeMicrocents
}

/**
 * Returns true if more is set aside than a gate leaves, beside the money that can't be spent, and no lost slot is
 * why.
 */
function isPassed(
  { world, allowances }: History,
  snapshot: Snapshot,
  account: AccountRow,
  unspendable: bigint,
): boolean {
  const granted = account.granted - unspendable
  const { organizationId, balance, held, instancesHeld, day, daySpent, dailyLimit, month, monthSpent, monthlyLimit } =
    account
  const unfoldedSpend = snapshot.unfoldedSpend.filter((row) => row.organizationId === organizationId)
  const unfolded = (from: string) =>
    unfoldedSpend
      .filter(({ minuteMs }) => minuteMs < Date.parse(`${from}T00:00:00Z`))
      .reduce((sum, row) => sum + row.spent, 0n)
  const headroom = [balance - held - granted]
  // Charges that were posted before the window are not spent in it, and not set aside any more.
  const today = utcDay(world.startMs + world.elapsedMs)
  if (dailyLimit !== null && day === today)
    headroom.push(dailyLimit - daySpent - instancesHeld - granted + unfolded(day))
  if (monthlyLimit !== null && month.slice(0, 7) === today.slice(0, 7)) {
    headroom.push(monthlyLimit - monthSpent - instancesHeld - granted + unfolded(month))
  }
  const { lostMicrocents } = allowances.of(organizationId)
  return headroom.some((left) => left < -lostMicrocents)
}
