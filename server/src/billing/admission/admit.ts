import { type Refusal, refusal } from '../../lib/errors.ts'
import type { RandomBytes } from '../../lib/ids.ts'
import { uuidV7 } from '../../lib/ids.ts'
import { ok, type Result, refused } from '../../lib/result.ts'
import { type Clock, SECOND_MS, secondsUntil } from '../../lib/time.ts'
import type { Coverable, PlanAnswer } from '../plans/cover.ts'
import { NO_PLAN } from '../plans/cover.ts'
import type { Plans } from '../plans/plans.ts'
import type { Admission } from './admission.ts'
import { CROWDED, insufficientFor, unreadableFor } from './gateRefusals.ts'
import { type Decision, decide, firstInsufficient, GATES, type Gate, type WorstCase } from './gates.ts'
import type { Looks, Seen } from './looks.ts'
import { MONEY_WAIT_MS, MoneyWait } from './moneyWait.ts'
import { Hold, type Share } from './share.ts'
import type { ShareRenewer } from './shareRenewer.ts'
import type { ReclaimFrom } from './wants.ts'

/** Once commits have been outstanding for this long, new calls are not admitted, and the process is not ready. */
export const STALLED_MS = 2 * SECOND_MS

/** Charges that may be on their way at once; a bound on memory, far above what a healthy database lets gather. */
const BACKLOG_LIMIT = 50_000

/** All that the admission of calls shares in one process; opened once, by `billing/open.ts`. */
export interface AdmissionContext {
  readonly clock: Clock
  readonly random: RandomBytes
  readonly renewer: ShareRenewer
  /** Asked before any gate on money. */
  readonly plans: Plans
  share(organizationId: string): Share
  /** To be called when the slot was lost and is owned again: what was granted to it may have gone to others meanwhile. */
  forgetShares(): void
  /** True while this process owns its slot; without it nothing may be admitted. */
  ownsSlot(): boolean
  /** False while the database's clock is far from what this process counted: nothing may be admitted, by any kind of call (E20). */
  knowsTime(): boolean
  /** Asks other processes for money of this organization, now and then at most; left out: for what is idle there. */
  reclaim(share: Share, from?: ReclaimFrom): void
  /** Looks at accounts that left too little for a call a moment ago; left out: they are asked each time. */
  readonly looks?: Looks
  /** The gates of a call could not be read (P3). */
  onUnreadable?: () => void
  /** A gate has nothing more for a call, whatever comes back. */
  onLimitReached?: (organizationId: string, gate: Gate) => void
  /** Calls that wait for money now. */
  waitingCalls: number
}

/** A call that may go on: what its charge will be made of, and the money held for it. */
export interface Admitted {
  readonly admission: Admission
  readonly hold: Hold
}

const UNAVAILABLE = unreadableFor('calls')

type GateRefusals = Readonly<Record<Gate, Refusal>>

function refusalsOf(hint?: string): GateRefusals {
  const of = (gate: Gate) => insufficientFor(gate, 'this request', hint)
  return { balance: of('balance'), daily: of('daily'), monthly: of('monthly'), newAccount: of('newAccount') }
}

const INSUFFICIENT = refusalsOf()

/** The same for chat calls, which may ask for less. */
const INSUFFICIENT_FOR_CHAT = refusalsOf('A smaller max_tokens may be needed.')

/** Reasons why a call is unfunded whose plan is used up: no credit, or an own limit reached. */
const UNFUNDED: ReadonlySet<Refusal> = new Set(
  [INSUFFICIENT, INSUFFICIENT_FOR_CHAT].flatMap(({ balance, daily, monthly }) => [balance, daily, monthly]),
)

const USED_UP =
  'The quota of your subscription is used up, and your credit balance or one of your spending limits leaves too little to pay for this request. Add credit or raise the limit, or wait until the quota is free again.'

/**
 * Begins a call: returns the id of its charge and the instant of its admission, in milliseconds since the epoch. The call's
 * price, day and partition follow from that instant.
 */
export function begin({
  clock,
  random,
}: Pick<AdmissionContext, 'clock' | 'random'>): Pick<Admission, 'chargeId' | 'admittedAtMs'> {
  const admittedAtMs = clock.now()
  return { chargeId: uuidV7(admittedAtMs, random), admittedAtMs }
}

/** The facts about a model that admission asks for. A model that does not say which parameters it takes takes all. */
interface CalledModel extends Coverable {
  readonly supportedParameters?: readonly string[]
}

/**
 * Admits a call that has begun: asks the plan, and where the plan does not cover the call, passes the money gates and places
 * the hold. Answers at once from the share in memory in nearly every case. Asks the database only when the
 * share has run low. `worst` is the most that the call can cost at the rate of its instant. The plan is asked about
 * `model`, and a refusal's words follow its modality and parameters; null: no plan ever covers the call.
 */
export function admit(
  money: AdmissionContext,
  admission: Admission,
  worst: WorstCase,
  model: CalledModel | null = null,
): Result<Admitted> | Promise<Result<Admitted>> {
  if (!mayAdmit(money)) {
    money.onUnreadable?.()
    return refused(UNAVAILABLE)
  }
  const { organizationId, admittedAtMs } = admission
  const share = money.share(organizationId)
  share.usedAtMs = money.clock.monotonicMs()
  if (share.beginsDay(admittedAtMs)) {
    money.renewer.renew(share, 0n, { kind: 'give_back' }).catch(() => share.forgetDay())
  }
  const plan = model === null ? NO_PLAN : money.plans.ask(organizationId, model, admittedAtMs, worst)
  const mayAskForLess = model?.modality === 'chat' && model.supportedParameters?.includes('max_tokens') !== false
  const refusals = mayAskForLess ? INSUFFICIENT_FOR_CHAT : INSUFFICIENT
  return plan instanceof Promise
    ? admitAfter(money, share, admission, worst, plan, refusals)
    : admitBy(money, share, admission, worst, plan, refusals)
}

function mayAdmit(money: AdmissionContext): boolean {
  const { oldestAgeMs, backlog } = money.renewer
  return money.ownsSlot() && money.knowsTime() && oldestAgeMs <= STALLED_MS && backlog < BACKLOG_LIMIT
}

/** Waits for the plan's answer. The share stays in use meanwhile, so that it is not forgotten under the call. */
async function admitAfter(
  money: AdmissionContext,
  share: Share,
  admission: Admission,
  worst: WorstCase,
  plan: Promise<PlanAnswer>,
  refusals: GateRefusals,
): Promise<Result<Admitted>> {
  share.openUses += 1
  const answer = await plan
  share.openUses -= 1
  return admitBy(money, share, admission, worst, answer, refusals)
}

/** Goes on where the plan has answered: a call that it covers, and one that costs nothing, meet no gate on money. */
function admitBy(
  money: AdmissionContext,
  share: Share,
  admission: Admission,
  worst: WorstCase,
  plan: PlanAnswer,
  refusals: GateRefusals,
): Result<Admitted> | Promise<Result<Admitted>> {
  if (plan.kind === 'covered') {
    return ok({ admission: { ...admission, cover: plan.cover }, hold: Hold.ofNothing(share, plan.endCall) })
  }
  if (worst.wholeMicrocents === 0n) return ok({ admission, hold: Hold.ofNothing(share) })
  const { admittedAtMs } = admission
  if (mayHaveEnough(share, worst)) {
    const hold = tryAdmit(share, worst, admittedAtMs)
    if (hold instanceof Hold) return ok({ admission, hold })
  }
  return takeHold(money, share, worst, admittedAtMs, refusals).then((hold) =>
    hold instanceof Hold ? ok({ admission, hold }) : refused(inWordsOfPlan(hold, plan, admittedAtMs)),
  )
}

/** Where the plan is used up, the refusal names the plan alone and no gate: the plan being free again is enough (P1). */
function inWordsOfPlan(refusedBy: Refusal, plan: PlanAnswer, nowMs: number): Refusal {
  if (plan.kind !== 'used_up' || !UNFUNDED.has(refusedBy)) return refusedBy
  return refusal('subscription_quota_exhausted', USED_UP, {
    retryAfterSeconds: secondsUntil(plan.freeAtMs, nowMs),
    retryIsUseless: true,
  })
}

/** The hold; or why there is none; or `past` when the call was admitted before the account's current day. */
type AdmitAttempt = Hold | Exclude<Decision, { kind: 'hold' }> | { readonly kind: 'past' }

function tryAdmit(share: Share, worst: WorstCase, admittedAtMs: number): AdmitAttempt {
  if (isPast(share, admittedAtMs)) return { kind: 'past' }
  const decision = decide(share.spendableMicrocents, share.heldMicrocents, worst, share.account)
  return decision.kind === 'hold' ? new Hold(share, decision.microcents, worst.firstStepMicrocents) : decision
}

/** Returns whether the share covers the whole worst case without asking the account, as far as is known here. */
function mayHaveEnough({ admittableMicrocents, exhaustedLimit }: Share, { wholeMicrocents }: WorstCase): boolean {
  return admittableMicrocents >= wholeMicrocents && exhaustedLimit === null
}

/** A call counts to the day on which it was admitted. Where limits bind it, it must not use a later day's headroom. */
function isPast({ dayStartMs, account: { headroom } }: Share, admittedAtMs: number): boolean {
  return admittedAtMs < dayStartMs && (headroom.daily !== null || headroom.monthly !== null)
}

/** Takes a hold with the database's help, waiting for other calls and processes where that may help. */
async function takeHold(
  money: AdmissionContext,
  share: Share,
  worst: WorstCase,
  admittedAtMs: number,
  refusals: GateRefusals,
): Promise<Hold | Refusal> {
  const wait = new MoneyWait(money)
  const attempt = () => tryAdmit(share, worst, admittedAtMs)
  share.openUses += 1
  try {
    for (;;) {
      // Somebody may have given back enough meanwhile. A day that is yet to come is asked about: it may have been a false one.
      const isThere = mayHaveEnough(share, worst) && !isPast(share, admittedAtMs)
      const seen = isThere ? 'ask' : await lookFirst(money, share, worst, admittedAtMs)
      if (seen === 'wait' && wait.endFor(share) === null) {
        await wait.forShare(share, true)
        continue
      }
      if (seen !== 'ask' && seen !== 'wait') return refuse(money, share, seen, refusals)
      const taken = isThere ? attempt() : await askInTime(money, share, worst.wholeMicrocents, 'admission', attempt)
      if (taken === null) {
        money.onUnreadable?.()
        return UNAVAILABLE
      }
      if ('kind' in taken && taken.kind === 'past') return UNAVAILABLE
      if (taken instanceof Hold) {
        // The spending of others must be known where somebody may have to be told, and they must know that it is so.
        if (share.reachesNotice && share.account.grantedToOthersMicrocents > 0n) money.reclaim(share, 'all')
        // The account may have given enough for others in line too.
        if (share.admittableMicrocents > 0n) share.wakeAll()
        return taken
      }
      share.shortAtMs = money.clock.monotonicMs()
      if (taken.kind === 'refuse') return refuse(money, share, taken.gate, refusals)
      const end = wait.endFor(share)
      if (end === 'no_place') return CROWDED
      if (end === 'over') {
        const gate = insufficientGate(share, worst.wholeMicrocents, GATES)
        return gate === null ? lastTry(attempt) : refusals[gate]
      }
      await wait.forShare(share)
    }
  } finally {
    share.openUses -= 1
  }
}

/** Looks at the account where it left too little a moment ago: to ask it is dearer. */
async function lookFirst(
  { looks }: AdmissionContext,
  share: Share,
  worst: WorstCase,
  admittedAtMs: number,
): Promise<Seen> {
  if (looks === undefined || !looks.isDue(share) || isPast(share, admittedAtMs)) return 'ask'
  return looks.see(share, worst)
}

/** Notes that a gate has nothing for a call, whatever comes back, and returns the refusal. */
function refuse(money: AdmissionContext, share: Share, gate: Gate, refusals: GateRefusals): Refusal {
  money.onLimitReached?.(share.organizationId, gate)
  return refusals[gate]
}

/** Which gate stands in the way of so much now. Null: none does any more, since enough came back this moment. */
function insufficientGate(share: Share, microcents: bigint, gates: readonly Gate[]): Gate | null {
  return firstInsufficient(share.account.headroom, share.spendableMicrocents, microcents, gates)
}

/** The end of a wait in which enough has come back at last: no gate may be blamed for what another call takes first. */
function lastTry(attempt: () => AdmitAttempt): Hold | Refusal {
  const taken = attempt()
  return taken instanceof Hold ? taken : CROWDED
}

/**
 * Tries to take something from the share once the account has been asked to make `wantedMicrocents` spendable. The trial
 * is part of the renewal: nobody else gets what came in between. Null: the database is away.
 */
async function askInTime<T>(
  money: AdmissionContext,
  share: Share,
  wantedMicrocents: bigint,
  kind: 'admission' | 'extension',
  attempt: () => T,
): Promise<T | null> {
  const taken: T[] = []
  let isLate = false
  const take = () => {
    if (!isLate) taken.push(attempt())
  }
  const asked = money.renewer.renew(share, wantedMicrocents, { kind, take }).catch(() => {})
  let cancelTimer = () => {}
  const late = new Promise<void>((resolve) => {
    cancelTimer = money.clock.after(MONEY_WAIT_MS, resolve)
  })
  await Promise.race([asked, late])
  isLate = true
  cancelTimer()
  return taken[0] ?? null
}

/**
 * `extended`; or the gate that left too little; or `unavailable`: the database could not be asked, or too many calls wait already. The
 * hold is unchanged but for `extended`.
 */
export type Extension = 'extended' | 'unavailable' | Gate

/**
 * Extends a hold to `microcents`, asking the account when the share has run low and waiting for other calls and
 * processes where that may help. Never rejects.
 */
export function extendHold(
  money: AdmissionContext,
  hold: Hold,
  share: Share,
  microcents: bigint,
): Extension | Promise<Extension> {
  if (hold.tryExtend(microcents)) return 'extended'
  return extendInTime(money, hold, share, microcents)
}

async function extendInTime(money: AdmissionContext, hold: Hold, share: Share, microcents: bigint): Promise<Extension> {
  const wait = new MoneyWait(money)
  for (;;) {
    const more = microcents - hold.microcents
    const extended = await askInTime(money, share, more, 'extension', () => hold.tryExtend(microcents))
    if (extended === null) {
      money.onUnreadable?.()
      return 'unavailable'
    }
    if (extended) return 'extended'
    const { account, spendableMicrocents, heldMicrocents, runningGates } = share
    const others = account.grantedToOthersMicrocents + heldMicrocents - hold.microcents
    const gate = firstInsufficient(account.headroom, spendableMicrocents + others, more, runningGates)
    if (gate !== null) {
      money.onLimitReached?.(share.organizationId, gate)
      return gate
    }
    const end = others <= 0n || !hold.isOpen ? 'over' : wait.endFor(share, true)
    if (end === 'no_place') return 'unavailable'
    if (end === 'over') {
      const late = insufficientGate(share, more, runningGates)
      if (late !== null) return late
      return hold.tryExtend(microcents) ? 'extended' : 'unavailable'
    }
    await wait.forShare(share)
  }
}
