import type { Share } from '../../src/billing/admission/share.ts'
import type { Gateway } from './gateway.ts'
import type { History } from './history.ts'

/** A call that could go on goes on when it is woken; between that and its turn there may be a renewal and some letters. */
const PATIENCE_MS = 500

/** For how long a call could have gone on, with nothing on its way to its process that might have woken it. */
interface Wait {
  quietMs: number
  lookedAtMs: number
  /** Until its process has something to hear, its next timer among it. Time may leap past that, and is not quiet from then on. */
  quietUntilMs: number
}

/** Calls that wait for money although their process has it: nobody has woken them. */
export class Waits {
  private readonly waits = new Map<Share, Wait>()

  check({ world, fleet, calls }: History): string[] {
    const problems: string[] = []
    for (const gateway of fleet.living) {
      const { machine, money } = gateway
      // An arrival that waits for the process, a timer that is due among it, may be the one that wakes the call.
      const isQuiet = machine.runs && machine.deliveries().length === 0
      for (const share of money.shares.values()) {
        const need = this.mostNeeded(gateway, share, calls)
        const isThere = share.exhaustedLimit === null && share.admittableMicrocents >= need
        if (share.waitingCalls === 0 || need === 0n || !isThere) {
          this.waits.delete(share)
          continue
        }
        const nowMs = world.elapsedMs
        const wait = this.waits.get(share) ?? { quietMs: 0, lookedAtMs: nowMs, quietUntilMs: nowMs }
        wait.quietMs += Math.min(nowMs, wait.quietUntilMs) - wait.lookedAtMs
        wait.lookedAtMs = nowMs
        wait.quietUntilMs = isQuiet ? (machine.nextTimerMs() ?? Number.POSITIVE_INFINITY) : nowMs
        this.waits.set(share, wait)
        if (wait.quietMs < PATIENCE_MS) continue
        problems.push(`${machine.name}: a call waits for ${need} of ${share.organizationId}, which is there`)
      }
    }
    return problems
  }

  /**
   * Returns the amount that the most demanding call needs that is not let in yet; 0 when one that runs may be the one
   * that waits.
   */
  private mostNeeded({ machine }: Gateway, { organizationId }: Share, calls: History['calls']): bigint {
    let most = 0n
    for (const call of calls.values()) {
      if (call.machine !== machine || call.organizationId !== organizationId || call.answer !== null) continue
      if (call.wasAdmitted) return 0n
      if (call.worst.wholeMicrocents > most) most = call.worst.wholeMicrocents
    }
    return most
  }
}
