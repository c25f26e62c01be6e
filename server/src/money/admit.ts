import { type Refusal, refusal } from '../kernel/errors.ts'
import type { RandomBytes } from '../kernel/ids.ts'
import { uuidV7 } from '../kernel/ids.ts'
import { ok, type Result, refused } from '../kernel/result.ts'
import { type Clock, SECOND_MS } from '../kernel/time.ts'
import type { Admission } from './charge.ts'
import { decide, type Worst } from './gates.ts'
import { Hold, type Wallet } from './wallet.ts'
import type { Writer } from './writer.ts'

/** How long a call waits for others to give money back before its 402, and for the database before its 503. */
const WAIT_MS = 2 * SECOND_MS

/** Once commits have been outstanding for this long, new calls are not admitted. */
const STALLED_MS = 2 * SECOND_MS

/** Calls that may wait for money at once in this process; more are refused without waiting. */
const WAITING_LIMIT = 1_000

/** Charges that may be on their way at once; a bound on memory, far above what a healthy database lets gather. */
const BACKLOG_LIMIT = 50_000

/** The part of money that calls share: built once in `app.ts`. */
export interface Money {
  readonly clock: Clock
  readonly random: RandomBytes
  readonly writer: Writer
  wallet(organizationId: string): Wallet
  /** To be called when the slot was lost and is owned again: what was allotted to it may have gone to others meanwhile. */
  forgetAllotments(): void
  /** True while this process owns its slot; without it nothing may be admitted. */
  ownsSlot(): boolean
  /** Calls that wait for money now. */
  waitingCalls: number
}

/** A call that may go on: what its charge will be made of, and the money set aside for it. */
export interface Admitted {
  readonly admission: Admission
  readonly hold: Hold
}

const UNAVAILABLE = refusal(
  'upstream_unavailable',
  'The service cannot take calls at this moment. Nothing was done or charged; try again shortly.',
  { retryAfterSeconds: 1 },
)

const INSUFFICIENT = refusal(
  'insufficient_balance',
  'The credit balance does not cover this request. Add credit, or ask for fewer tokens with max_tokens.',
)

/**
 * Admits a paid call: passes the money gates and sets the hold aside. Answers at once from the allotment in memory in
 * nearly every case; asks the database only when the allotment has run low. `worstAt` is what the call may come to at the
 * rate of the instant of admission, which is settled here.
 */
export function admit(
  money: Money,
  call: Omit<Admission, 'chargeId' | 'admittedAtMs'>,
  worstAt: (admittedAtMs: number) => Worst,
): Result<Admitted> | Promise<Result<Admitted>> {
  if (!money.ownsSlot() || money.writer.oldestAgeMs > STALLED_MS || money.writer.backlog >= BACKLOG_LIMIT) {
    return refused(UNAVAILABLE)
  }
  const admittedAtMs = money.clock.now()
  const admission: Admission = { ...call, chargeId: uuidV7(admittedAtMs, money.random), admittedAtMs }
  const worst = worstAt(admittedAtMs)
  const wallet = money.wallet(call.organizationId)
  const spendable = wallet.spendableMicrocents
  if (spendable >= worst.wholeMicrocents) {
    const decision = decide(spendable, wallet.heldMicrocents, worst)
    if (decision.kind === 'hold') return ok({ admission, hold: new Hold(wallet, decision.microcents) })
  }
  return takeHold(money, wallet, worst).then((hold) => (hold instanceof Hold ? ok({ admission, hold }) : refused(hold)))
}

/** Takes a hold with the database's help, waiting for other calls where that may help. */
async function takeHold(money: Money, wallet: Wallet, worst: Worst): Promise<Hold | Refusal> {
  const deadline = money.clock.monotonicMs() + WAIT_MS
  for (;;) {
    if (!(await refillInTime(money, wallet, worst.wholeMicrocents))) return UNAVAILABLE
    const decision = decide(wallet.spendableMicrocents, wallet.heldMicrocents, worst)
    if (decision.kind === 'hold') {
      const hold = new Hold(wallet, decision.microcents)
      // What the account gave may be enough for others in line too.
      if (wallet.spendableMicrocents > 0n) wallet.wakeAll()
      return hold
    }
    if (decision.kind === 'refuse') return INSUFFICIENT
    const left = deadline - money.clock.monotonicMs()
    if (left <= 0 || money.waitingCalls >= WAITING_LIMIT) return INSUFFICIENT
    await waitForRelease(money, wallet, left)
  }
}

function waitForRelease(money: Money, wallet: Wallet, longestMs: number): Promise<void> {
  money.waitingCalls += 1
  return new Promise((resolve) => {
    const done = () => {
      money.waitingCalls -= 1
      cancelTimer()
      leaveQueue()
      resolve()
    }
    const leaveQueue = wallet.wait(done)
    const cancelTimer = money.clock.after(longestMs, done)
  })
}

/** Brings the wallet up to date with at least `need` to spend where the account has it. False: the database is away. */
async function refillInTime(money: Money, wallet: Wallet, need: bigint): Promise<boolean> {
  if (wallet.spendableMicrocents >= need) return true
  const asked = money.writer.refill(wallet, need).then(
    () => true,
    () => false,
  )
  let cancelTimer = () => {}
  const late = new Promise<boolean>((resolve) => {
    cancelTimer = money.clock.after(WAIT_MS, () => resolve(false))
  })
  try {
    return await Promise.race([asked, late])
  } finally {
    cancelTimer()
  }
}

/** `short`: there is no more money. `unavailable`: the database could not be asked. The hold is as it was then. */
export type Extension = 'extended' | 'short' | 'unavailable'

/** Extends a hold to `microcents`, asking the account when the allotment has run low. Never rejects. */
export function extendHold(
  money: Money,
  hold: Hold,
  wallet: Wallet,
  microcents: bigint,
): Extension | Promise<Extension> {
  if (hold.tryExtend(microcents)) return 'extended'
  return refillInTime(money, wallet, microcents - hold.microcents).then((asked) => {
    if (hold.tryExtend(microcents)) return 'extended'
    return asked ? 'short' : 'unavailable'
  })
}
