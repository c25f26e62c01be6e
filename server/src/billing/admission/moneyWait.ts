import { type Clock, SECOND_MS, sleep } from '../../lib/time.ts'
import type { Share } from './share.ts'
import type { ShareRenewer } from './shareRenewer.ts'

/** How long a call waits for others to give money back before its 402, and for the database before its 503. */
export const MONEY_WAIT_MS = 2 * SECOND_MS

/**
 * How often an account is asked again while other processes have something of it: they fold and give back when they are
 * told, and nobody says when they have.
 */
const MONEY_POLL_MS = 50

/** Calls and jobs that may wait for money at once in this process; more are turned away without waiting. */
const WAITING_MOST = 1_000

/** New calls of one organization among them: it must not take the places of all others. */
const WAITING_EACH_MOST = 250

/** All calls of one organization: running ones, which have to end where they find no place, are not crowded out by its new ones. */
const RUNNING_EACH_MOST = 500

/** Why a call or job waits no longer: its time is over; or too many wait already, which says nothing about its money. */
export type WaitEnd = 'over' | 'no_place'

/** As much of an `AdmissionContext` as waiting takes. */
interface Waiters {
  readonly clock: Clock
  readonly renewer: Pick<ShareRenewer, 'renew'>
  reclaim(share: Share): void
  waitingCalls: number
}

/** The time that one call or job may wait for money that others hold. It begins when this is made. */
export class MoneyWait {
  private readonly money: Waiters
  private readonly startedMs: number

  constructor(money: Waiters) {
    this.money = money
    this.startedMs = money.clock.monotonicMs()
  }

  get elapsedMs(): number {
    return this.money.clock.monotonicMs() - this.startedMs
  }

  /** Returns why a use of the share may not wait, or not any longer; null: it may. `isRunning`: it is a call that was admitted. */
  endFor({ waitingCalls }: Share, isRunning = false): WaitEnd | null {
    if (this.elapsedMs >= MONEY_WAIT_MS) return 'over'
    const eachMost = isRunning ? RUNNING_EACH_MOST : WAITING_EACH_MOST
    return waitingCalls >= eachMost || this.money.waitingCalls >= WAITING_MOST ? 'no_place' : null
  }

  /** Waits until something has come back to the share, or may have come back to the account from elsewhere, where others have some of it. */
  forShare(share: Share, isElsewhere = share.account.grantedToOthersMicrocents > 0n): Promise<void> {
    const { money } = this
    const leftMs = MONEY_WAIT_MS - this.elapsedMs
    const polls = isElsewhere && leftMs > MONEY_POLL_MS
    if (isElsewhere) money.reclaim(share)
    money.waitingCalls += 1
    return new Promise((resolve) => {
      const done = () => {
        money.waitingCalls -= 1
        cancelTimer()
        leaveQueue()
        resolve()
      }
      const leaveQueue = share.wait(done)
      // A call that polls wakes all, so that one renewal asks for everybody.
      const cancelTimer = money.clock.after(polls ? MONEY_POLL_MS : leftMs, polls ? () => share.wakeAll() : done)
    })
  }

  /**
   * Asks back what calls were granted of the account and do not use, here and in other processes, and waits until it is worth asking
   * the account again: what comes back to it is told to nobody.
   */
  async forAccount(share: Share): Promise<void> {
    const { money } = this
    money.reclaim(share)
    await money.renewer.renew(share, 0n, { kind: 'give_back' }).catch(() => {})
    money.waitingCalls += 1
    await sleep(money.clock, MONEY_POLL_MS)
    money.waitingCalls -= 1
  }
}
