import type { Wallet } from '../../src/money/wallet.ts'
import type { Gateway } from './gateway.ts'
import type { History } from './history.ts'

/** A call that could go on goes on when it is woken; between that and its turn there may be a refill and some letters. */
const PATIENCE_MS = 500

/** Calls that wait for money although their process has it: nobody has woken them. */
export class Waits {
  private readonly sinceMs = new Map<Wallet, number>()

  check({ world, fleet, calls }: History): string[] {
    const problems: string[] = []
    for (const gateway of fleet.living) {
      for (const wallet of gateway.money.wallets.values()) {
        const need = this.mostNeeded(gateway, wallet, calls)
        const couldGoOn =
          wallet.waitingCalls > 0 && need > 0n && wallet.stopped === null && wallet.launchableMicrocents >= need
        if (!couldGoOn || gateway.machine.isPaused) {
          this.sinceMs.delete(wallet)
          continue
        }
        const sinceMs = this.sinceMs.get(wallet) ?? world.elapsedMs
        this.sinceMs.set(wallet, sinceMs)
        if (world.elapsedMs - sinceMs < PATIENCE_MS) continue
        problems.push(`${gateway.machine.name}: a call waits for ${need} of ${wallet.organizationId}, which is there`)
      }
    }
    return problems
  }

  /** What the most demanding call needs that is not let in yet; 0 when one that runs may be the one that waits. */
  private mostNeeded({ machine }: Gateway, { organizationId }: Wallet, calls: History['calls']): bigint {
    let most = 0n
    for (const call of calls.values()) {
      if (call.machine !== machine || call.organizationId !== organizationId || call.answer !== null) continue
      if (call.wasAdmitted) return 0n
      if (call.worst.wholeMicrocents > most) most = call.worst.wholeMicrocents
    }
    return most
  }
}
