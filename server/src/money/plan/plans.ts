import type { Plan } from '../../catalog/plan.ts'
import { type Clock, SECOND_MS } from '../../kernel/time.ts'
import type { Wallet } from '../wallet.ts'
import type { Writer } from '../writer.ts'
import { askPlan, type Coverable, NO_PLAN, type PlanAnswer } from './gate.ts'
import { PlanMeter } from './meter.ts'

/** No call is decided on a figure that is older than this. */
const AGE_LIMIT_MS = SECOND_MS

/** A figure this old is read again while calls go on with it, so that none of a busy organization waits. */
const REFRESH_AGE_MS = SECOND_MS / 2

/** How long a call waits for its plan's meter before it counts as pay-as-you-go (P3). */
const WAIT_MS = SECOND_MS

export interface PlansOptions {
  readonly clock: Clock
  readonly writer: Writer
  /** The plans in force. */
  readonly offered: () => readonly Plan[]
  /** A meter could not be read, and a call counts as pay-as-you-go. */
  readonly onUnreadable?: () => void
}

/** What decides on cover in one process. */
export interface Plans {
  /** The plans in force. */
  offered(): readonly Plan[]
  /**
   * Asks an organization's plan about a call that is admitted now. Answers at once where no plan is offered, and in nearly
   * every other case. Never rejects.
   */
  ask(wallet: Wallet, model: Coverable, nowMs: number): PlanAnswer | Promise<PlanAnswer>
}

const UNREADABLE: PlanAnswer = { kind: 'unreadable' }

export function openPlans({ clock, writer, offered, onUnreadable }: PlansOptions): Plans {
  const refresh = (wallet: Wallet, meter: PlanMeter) => writer.readPlan(wallet, meter)

  const askInTime = async (wallet: Wallet, meter: PlanMeter, model: Coverable, nowMs: number) => {
    wallet.users += 1
    const read = await inTime(clock, refresh(wallet, meter))
    wallet.users -= 1
    const state = meter.current
    if (read && state !== null) return askPlan(offered(), state, model, nowMs)
    onUnreadable?.()
    return UNREADABLE
  }

  return {
    offered,
    ask(wallet, model, nowMs) {
      const plans = offered()
      if (plans.length === 0) return NO_PLAN
      wallet.plan ??= new PlanMeter()
      const meter = wallet.plan
      const ageMs = clock.monotonicMs() - meter.readAtMs
      const state = meter.current
      if (state === null || ageMs > AGE_LIMIT_MS) return askInTime(wallet, meter, model, nowMs)
      if (ageMs > REFRESH_AGE_MS) refresh(wallet, meter).catch(() => {})
      return askPlan(plans, state, model, nowMs)
    },
  }
}

/** Whether it was done, without an error, before a call has to go on. */
async function inTime(clock: Clock, work: Promise<void>): Promise<boolean> {
  let cancelTimer = () => {}
  const late = new Promise<boolean>((resolve) => {
    cancelTimer = clock.after(WAIT_MS, () => resolve(false))
  })
  const done = work.then(
    () => true,
    () => false,
  )
  try {
    return await Promise.race([done, late])
  } finally {
    cancelTimer()
  }
}
