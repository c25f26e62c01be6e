/** The rules of the shares of every process, held against the books and against its calls. */

import type { Share } from '../../src/billing/admission/share.ts'
import type { Call } from './call.ts'
import type { Snapshot } from './engine.ts'
import type { Fleet } from './fleet.ts'
import type { Gateway } from './gateway.ts'
import { costOf } from './script.ts'

export interface SharesChecked {
  readonly snapshot: Snapshot
  readonly fleet: Fleet
  readonly calls: readonly Call[]
  /** A batch with a refused row is posted by halves, and its calls are told at the end only. */
  readonly hasPoison: boolean
}

/** Everything that is wrong, in words. Only between steps at which no statement is under way. */
export function findShareProblems(checked: SharesChecked): string[] {
  const problems: string[] = []
  for (const gateway of checked.fleet.living) {
    for (const share of gateway.money.shares.values()) {
      const found = [
        ...signs(share),
        ...belief(checked, gateway, share),
        ...backing(checked, gateway, share),
        ...cover(checked, gateway, share),
      ]
      problems.push(...found.map((problem) => `${gateway.machine.name}, ${share.organizationId}: ${problem}`))
    }
  }
  return problems
}

/** Nothing in a share is less than nothing, and without calls nothing is held. */
function signs({ heldMicrocents, unpostedMicrocents, openUses }: Share): string[] {
  if (heldMicrocents < 0n || unpostedMicrocents < 0n || openUses < 0) {
    return [`held ${heldMicrocents}, unposted ${unpostedMicrocents}, uses ${openUses}`]
  }
  return openUses === 0 && heldMicrocents !== 0n ? [`nobody holds ${heldMicrocents}`] : []
}

/** No process believes that it has more than the books say. */
function belief({ snapshot, fleet }: SharesChecked, { machine, slot }: Gateway, share: Share): string[] {
  if (!fleet.isTrusted(machine)) return []
  const isIts = (row: { readonly organizationId: string; readonly slot: number }) =>
    row.organizationId === share.organizationId && row.slot === slot.number
  const granted = snapshot.shares.find(isIts)?.granted ?? 0n
  const there = snapshot.unfoldedSpend.filter(isIts).reduce((left, { spent }) => left - spent, granted)
  const here = share.spendableMicrocents + share.heldMicrocents
  return here > (there > 0n ? there : 0n) ? [`it believes to have ${here}, and has ${there}`] : []
}

/** The holds of calls are granted, and no charge is more than its hold: a share is never short. */
function backing({ fleet }: SharesChecked, { machine }: Gateway, share: Share): string[] {
  if (!fleet.isSteady(machine) || share.spendableMicrocents >= 0n) return []
  return [`it is short by ${-share.spendableMicrocents}`]
}

/**
 * The text that clients have of answers under way, up to the tokens that they asked for, is held until the charge is
 * taken.
 */
function cover({ calls, hasPoison }: SharesChecked, { machine }: Gateway, share: Share): string[] {
  if (hasPoison) return []
  let read = 0n
  for (const { resolved: served, admittedAtMs, tokensRead, maxTokens, answer, heldMicrocents } of callsOf(
    calls,
    machine,
    share,
  )) {
    if (answer !== null || heldMicrocents !== null) continue
    read += costOf(served, admittedAtMs, 0, 0, Math.min(tokensRead, maxTokens ?? tokensRead))
  }
  const held = share.heldMicrocents
  return read > held ? [`clients have answers worth ${read}, and ${held} is held for them`] : []
}

function callsOf(calls: readonly Call[], machine: Gateway['machine'], { organizationId }: Share): Call[] {
  return calls.filter((call) => call.machine === machine && call.organizationId === organizationId)
}
