/** What must be true of the wallets of every process, held against the books and against its calls. */

import type { Wallet } from '../../src/money/wallet.ts'
import type { Call } from './call.ts'
import { beyondHolds } from './checker.ts'
import type { Snapshot } from './engine.ts'
import type { Fleet } from './fleet.ts'
import type { Gateway } from './gateway.ts'
import { costOf } from './script.ts'

export interface WalletsChecked {
  readonly snapshot: Snapshot
  readonly fleet: Fleet
  readonly calls: readonly Call[]
  /** A batch with a refused row is posted by halves, and its calls are told at the end only. */
  readonly hasPoison: boolean
}

/** Everything that is wrong, in words. Only between steps at which no statement is under way. */
export function findWalletProblems(checked: WalletsChecked): string[] {
  const problems: string[] = []
  for (const gateway of checked.fleet.living) {
    for (const wallet of gateway.money.wallets.values()) {
      const found = [
        ...signs(wallet),
        ...belief(checked, gateway, wallet),
        ...backing(checked, gateway, wallet),
        ...cover(checked, gateway, wallet),
      ]
      problems.push(...found.map((problem) => `${gateway.machine.name}, ${wallet.organizationId}: ${problem}`))
    }
  }
  return problems
}

/** Nothing in a wallet is less than nothing, and without calls nothing is held. */
function signs({ heldMicrocents, unpostedMicrocents, users }: Wallet): string[] {
  if (heldMicrocents < 0n || unpostedMicrocents < 0n || users < 0) {
    return [`held ${heldMicrocents}, unposted ${unpostedMicrocents}, users ${users}`]
  }
  return users === 0 && heldMicrocents !== 0n ? [`nobody holds ${heldMicrocents}`] : []
}

/** No process believes that it has more than the books say. */
function belief({ snapshot, fleet }: WalletsChecked, { machine, slot }: Gateway, wallet: Wallet): string[] {
  if (!fleet.isTrusted(machine)) return []
  const isIts = (row: { readonly organizationId: string; readonly slot: number }) =>
    row.organizationId === wallet.organizationId && row.slot === slot.number
  const granted = snapshot.allotments.find(isIts)?.granted ?? 0n
  const there = snapshot.slices.filter(isIts).reduce((left, { spent }) => left - spent, granted)
  const here = wallet.spendableMicrocents + wallet.heldMicrocents
  return here > (there > 0n ? there : 0n) ? [`it believes to have ${here}, and has ${there}`] : []
}

/** What calls hold is granted: a wallet is short by no more than what answers cost beyond their holds. */
function backing({ fleet, calls }: WalletsChecked, { machine }: Gateway, wallet: Wallet): string[] {
  if (!fleet.isSteady(machine) || wallet.spendableMicrocents >= 0n) return []
  const beyond = beyondHolds(callsOf(calls, machine, wallet))
  const short = -wallet.spendableMicrocents
  return short > beyond ? [`it is short by ${short}, and calls cost at most ${beyond} beyond their holds`] : []
}

/** What clients have of answers under way is held, or on its way as a charge. */
function cover({ calls, hasPoison }: WalletsChecked, { machine }: Gateway, wallet: Wallet): string[] {
  if (hasPoison) return []
  let read = 0n
  for (const { served, admittedAtMs, tokensRead, answer } of callsOf(calls, machine, wallet)) {
    if (answer === null) read += costOf(served, admittedAtMs, 0, 0, tokensRead)
  }
  const covered = wallet.heldMicrocents + wallet.unpostedMicrocents
  return read > covered ? [`clients have answers worth ${read}, and ${covered} is held for them`] : []
}

function callsOf(calls: readonly Call[], machine: Gateway['machine'], { organizationId }: Wallet): Call[] {
  return calls.filter((call) => call.machine === machine && call.organizationId === organizationId)
}
