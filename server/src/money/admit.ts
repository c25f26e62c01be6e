import { type Refusal, refusal } from '../kernel/errors.ts'
import type { RandomBytes } from '../kernel/ids.ts'
import { uuidV7 } from '../kernel/ids.ts'
import { ok, type Result, refused } from '../kernel/result.ts'
import { type Clock, SECOND_MS } from '../kernel/time.ts'
import type { Admission } from './charge.ts'
import { type Decision, decide, firstShort, GATES, type Gate, type Worst } from './gates.ts'
import type { Coverable, PlanAnswer } from './plan/gate.ts'
import { NO_PLAN } from './plan/gate.ts'
import type { Plans } from './plan/plans.ts'
import { Hold, type Wallet } from './wallet.ts'
import type { Writer } from './writer.ts'

/** How long a call waits for others to give money back before its 402, and for the database before its 503. */
const WAIT_MS = 2 * SECOND_MS

/**
 * How often an account is asked again while other processes have something of it: they fold and give back when they are
 * told, and nobody says when they have.
 */
const POLL_MS = 50

/** Once commits have been outstanding for this long, new calls are not admitted. */
const STALLED_MS = 2 * SECOND_MS

/** Calls that may wait for money at once in this process; more are refused without waiting. */
export const WAITING_LIMIT = 1_000

/** Charges that may be on their way at once; a bound on memory, far above what a healthy database lets gather. */
const BACKLOG_LIMIT = 50_000

/** The part of money that calls share: built once in `app.ts`. */
export interface Money {
  readonly clock: Clock
  readonly random: RandomBytes
  readonly writer: Writer
  /** Asked before any gate on money. */
  readonly plans: Plans
  wallet(organizationId: string): Wallet
  /** To be called when the slot was lost and is owned again: what was allotted to it may have gone to others meanwhile. */
  forgetAllotments(): void
  /** True while this process owns its slot; without it nothing may be admitted. */
  ownsSlot(): boolean
  /** Asks other processes to give back what they hold idle for this organization, now and then at most. */
  recall(wallet: Wallet): void
  /** The gates of a call could not be read (P3). */
  onUnreadable?: () => void
  /** A gate has nothing more for a call, whatever comes back. */
  onLimitReached?: (organizationId: string, gate: Gate) => void
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

/** What each gate is refused with (P1): clients retry neither. */
const SHORT: Readonly<Record<Gate, Refusal>> = {
  balance: refusal(
    'insufficient_balance',
    'The credit balance does not cover this request. Add credit, or ask for fewer tokens with max_tokens.',
  ),
  daily: refusal(
    'quota_exceeded',
    'The daily spending limit does not leave enough for this request. It is free again at 00:00 UTC; an admin can raise it.',
  ),
  monthly: refusal(
    'quota_exceeded',
    'The monthly spending limit does not leave enough for this request. An admin can raise it; a new month begins in UTC.',
  ),
  newAccount: refusal(
    'quota_exceeded',
    'The spending cap of new accounts, $20 in 60 minutes, does not leave enough for this request. Wait, or make a first payment.',
  ),
}

/** What leaves a call unfunded whose plan is used up: no credit, or an own limit reached. */
const UNFUNDED: ReadonlySet<Refusal> = new Set([SHORT.balance, SHORT.daily, SHORT.monthly])

const USED_UP =
  'The quota of your subscription is used up, and neither the credit balance nor your own spending limits leave enough to pay for this request. Add credit or raise the limit, or wait until the quota is free again.'

/**
 * Admits a paid call: asks the plan, and where that does not cover the call passes the money gates and sets the hold
 * aside. Answers at once from the allotment in memory in nearly every case; asks the database only when the allotment has
 * run low. `worstAt` is what the call may come to at the rate of the instant of admission, which is settled here. `model`
 * is what the plan is asked about; null: no plan ever covers the call.
 */
export function admit(
  money: Money,
  call: Omit<Admission, 'chargeId' | 'admittedAtMs'>,
  worstAt: (admittedAtMs: number) => Worst,
  model: Coverable | null = null,
): Result<Admitted> | Promise<Result<Admitted>> {
  if (!money.ownsSlot() || money.writer.oldestAgeMs > STALLED_MS || money.writer.backlog >= BACKLOG_LIMIT) {
    money.onUnreadable?.()
    return refused(UNAVAILABLE)
  }
  const admittedAtMs = money.clock.now()
  const admission: Admission = { ...call, chargeId: uuidV7(admittedAtMs, money.random), admittedAtMs }
  const worst = worstAt(admittedAtMs)
  const wallet = money.wallet(call.organizationId)
  wallet.usedAtMs = admittedAtMs
  const plan = model === null ? NO_PLAN : money.plans.ask(wallet, model, admittedAtMs)
  return plan instanceof Promise
    ? plan.then((answer) => admitBy(money, wallet, admission, worst, answer))
    : admitBy(money, wallet, admission, worst, plan)
}

/** Goes on where the plan has answered: a call that it covers meets no gate on money. */
function admitBy(
  money: Money,
  wallet: Wallet,
  admission: Admission,
  worst: Worst,
  plan: PlanAnswer,
): Result<Admitted> | Promise<Result<Admitted>> {
  if (plan.kind === 'covered') {
    return ok({ admission: { ...admission, cover: plan.cover }, hold: new Hold(wallet, 0n, true) })
  }
  const { admittedAtMs } = admission
  if (wallet.launchableMicrocents >= worst.wholeMicrocents && wallet.stopped === null) {
    const hold = launch(wallet, worst, admittedAtMs)
    if (hold instanceof Hold) return ok({ admission, hold })
  }
  return takeHold(money, wallet, worst, admittedAtMs).then((hold) =>
    hold instanceof Hold ? ok({ admission, hold }) : refused(inWordsOfPlan(hold, plan, admittedAtMs)),
  )
}

/** Where the plan is used up, what is short beside it is not told: the plan being free again is enough (P1). */
function inWordsOfPlan(refusedBy: Refusal, plan: PlanAnswer, nowMs: number): Refusal {
  if (plan.kind !== 'used_up' || !UNFUNDED.has(refusedBy)) return refusedBy
  return refusal('subscription_quota_exhausted', USED_UP, {
    retryAfterSeconds: Math.max(1, Math.ceil((plan.freeAtMs - nowMs) / SECOND_MS)),
    retryIsUseless: true,
  })
}

/** What came of trying to take a hold: it, why not, or that the call came before the day that the account is in. */
type Launch = Hold | Exclude<Decision, { kind: 'hold' }> | { readonly kind: 'past' }

function launch(wallet: Wallet, worst: Worst, admittedAtMs: number): Launch {
  if (admittedAtMs < wallet.dayStartMs && isCapped(wallet)) return { kind: 'past' }
  const decision = decide(wallet.spendableMicrocents, wallet.heldMicrocents, worst, wallet.beyond)
  return decision.kind === 'hold' ? new Hold(wallet, decision.microcents) : decision
}

/** A call's cost counts to the day of its admission: it must not use the room of a later one. */
function isCapped({ beyond: { rooms } }: Wallet): boolean {
  return rooms.daily !== null || rooms.monthly !== null
}

/** Takes a hold with the database's help, waiting for other calls and processes where that may help. */
async function takeHold(money: Money, wallet: Wallet, worst: Worst, admittedAtMs: number): Promise<Hold | Refusal> {
  const deadline = money.clock.monotonicMs() + WAIT_MS
  const attempt = () => launch(wallet, worst, admittedAtMs)
  wallet.users += 1
  try {
    for (;;) {
      // Somebody may have given back enough meanwhile.
      const isThere = wallet.launchableMicrocents >= worst.wholeMicrocents && wallet.stopped === null
      const taken = isThere ? attempt() : await askInTime(money, wallet, worst.wholeMicrocents, 'launch', attempt)
      if (taken === null || ('kind' in taken && taken.kind === 'past')) {
        money.onUnreadable?.()
        return UNAVAILABLE
      }
      if (taken instanceof Hold) {
        // What others have spent must be known where somebody may have to be told.
        if (wallet.passesNotice && wallet.beyond.elsewhereMicrocents > 0n) money.recall(wallet)
        // What the account gave may be enough for others in line too.
        if (wallet.launchableMicrocents > 0n) wallet.wakeAll()
        return taken
      }
      if (taken.kind === 'refuse') {
        money.onLimitReached?.(wallet.organizationId, taken.gate)
        return SHORT[taken.gate]
      }
      const left = deadline - money.clock.monotonicMs()
      if (left <= 0 || money.waitingCalls >= WAITING_LIMIT) return SHORT[shortNow(wallet, worst.wholeMicrocents, GATES)]
      await waitForOthers(money, wallet, left)
    }
  } finally {
    wallet.users -= 1
  }
}

/** Which gate stands in the way of so much now. */
function shortNow(wallet: Wallet, microcents: bigint, gates: readonly Gate[]): Gate {
  return firstShort(wallet.beyond.rooms, wallet.spendableMicrocents, microcents, gates) ?? 'balance'
}

/** Waits until something has come back here, or may have come back to the account from elsewhere. */
function waitForOthers(money: Money, wallet: Wallet, longestMs: number): Promise<void> {
  const polls = wallet.beyond.elsewhereMicrocents > 0n && longestMs > POLL_MS
  if (wallet.beyond.elsewhereMicrocents > 0n) money.recall(wallet)
  money.waitingCalls += 1
  return new Promise((resolve) => {
    const done = () => {
      money.waitingCalls -= 1
      cancelTimer()
      leaveQueue()
      resolve()
    }
    const leaveQueue = wallet.wait(done)
    // Who polls wakes all, so that one refill asks for everybody.
    const cancelTimer = money.clock.after(polls ? POLL_MS : longestMs, polls ? () => wallet.wakeAll() : done)
  })
}

/**
 * Tries to take something from the wallet once the account has been asked to make `wantedMicrocents` spendable. The trial
 * is part of the refill: nobody else gets what came in between. Null: the database is away.
 */
async function askInTime<T>(
  money: Money,
  wallet: Wallet,
  wantedMicrocents: bigint,
  kind: 'launch' | 'extension',
  attempt: () => T,
): Promise<T | null> {
  const taken: T[] = []
  let isLate = false
  const take = () => {
    if (!isLate) taken.push(attempt())
  }
  const asked = money.writer.refill(wallet, wantedMicrocents, { kind, take }).catch(() => {})
  let cancelTimer = () => {}
  const late = new Promise<void>((resolve) => {
    cancelTimer = money.clock.after(WAIT_MS, resolve)
  })
  await Promise.race([asked, late])
  isLate = true
  cancelTimer()
  return taken[0] ?? null
}

/** The gate that was short, or that the database could not be asked. The hold is as it was then. */
export type Extension = 'extended' | 'unavailable' | Gate

/**
 * Extends a hold to `microcents`, asking the account when the allotment has run low and waiting for other calls and
 * processes where that may help. Never rejects.
 */
export function extendHold(
  money: Money,
  hold: Hold,
  wallet: Wallet,
  microcents: bigint,
): Extension | Promise<Extension> {
  if (hold.tryExtend(microcents)) return 'extended'
  return extendInTime(money, hold, wallet, microcents)
}

async function extendInTime(money: Money, hold: Hold, wallet: Wallet, microcents: bigint): Promise<Extension> {
  const deadline = money.clock.monotonicMs() + WAIT_MS
  for (;;) {
    const more = microcents - hold.microcents
    const extended = await askInTime(money, wallet, more, 'extension', () => hold.tryExtend(microcents))
    if (extended === null) {
      money.onUnreadable?.()
      return 'unavailable'
    }
    if (extended) return 'extended'
    const { beyond, spendableMicrocents, heldMicrocents, runningGates } = wallet
    const others = beyond.elsewhereMicrocents + heldMicrocents - hold.microcents
    const gate = firstShort(beyond.rooms, spendableMicrocents + others, more, runningGates)
    if (gate !== null) {
      money.onLimitReached?.(wallet.organizationId, gate)
      return gate
    }
    const left = deadline - money.clock.monotonicMs()
    if (others <= 0n || left <= 0 || !hold.isOpen || money.waitingCalls >= WAITING_LIMIT) {
      return shortNow(wallet, more, runningGates)
    }
    await waitForOthers(money, wallet, left)
  }
}
