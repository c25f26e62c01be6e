/** Predicts what a call would meet now, in one word and one sentence (P2), by the balance and spending limits of real calls. Pure. */

import { GATE_WORDS } from '../../billing/admission/gateRefusals.ts'
import { type Figures, FUNDING_GATES, type FundingGate, insufficientFunds } from '../../billing/admission/gates.ts'
import type { PlanAnswer } from '../../billing/plans/cover.ts'
import type { Modality } from '../../catalog/model.ts'

export const REASONS = [
  'plan_covered',
  'payg',
  'not_plan_covered',
  'subscription_quota_exhausted',
  'insufficient_balance',
  'daily_limit_reached',
  'monthly_limit_reached',
  'preflight_unavailable',
] as const
type Reason = (typeof REASONS)[number]

export interface Verdict {
  readonly verdict: 'ok' | 'warn' | 'block'
  /** Null on a plain ok. */
  readonly reason: Reason | null
  readonly planCovered: boolean
  readonly subscribed: boolean
  /** The balance exceeds durable holds, and no limit that refuses calls is reached. Of videos: the balance alone. */
  readonly funded: boolean
  /** A chat call that is paid for may come to more than the gates leave, where it says no max_tokens. */
  readonly mayNeedMaxTokens: boolean
}

/** The facts about a call that its verdict follows from. */
export interface Known {
  readonly modality: Modality
  readonly plan: PlanAnswer
  /** True when some plan on offer is for the model. */
  readonly isOffered: boolean
  /** Null: could not be read. */
  readonly figures: Figures | null
  /** False where the model costs nothing: then no call of it is refused for want of money. */
  readonly costsMoney: boolean
  /** The cost, now, of all output of a chat call without max_tokens, its prompt aside; null where no call may say max_tokens. */
  readonly wholeOutputMicrocents: bigint | null
}

/** Videos meet the balance alone. */
const VIDEO_GATES: readonly FundingGate[] = ['balance']

const REASON_OF: Readonly<Record<FundingGate, Reason>> = {
  balance: 'insufficient_balance',
  daily: 'daily_limit_reached',
  monthly: 'monthly_limit_reached',
}

/** Judges a call. Facts that could not be read never block it (section 4 of the specification, rule 5 of preflight). */
export function judge({ modality, plan, isOffered, figures, costsMoney, wholeOutputMicrocents }: Known): Verdict {
  const gates = modality === 'video' ? VIDEO_GATES : FUNDING_GATES
  const insufficient = figures === null ? null : insufficientFunds(figures, gates)
  const facts = {
    planCovered: plan.kind === 'covered' || plan.kind === 'used_up' || (plan.kind !== 'outside' && isOffered),
    subscribed: plan.kind === 'covered' || plan.kind === 'used_up' || plan.kind === 'outside',
    funded: insufficient === null,
    mayNeedMaxTokens: false,
  }
  if (plan.kind === 'covered') return { verdict: 'ok', reason: 'plan_covered', ...facts }
  if (plan.kind === 'unreadable' || figures === null) {
    return { verdict: 'ok', reason: 'preflight_unavailable', ...facts }
  }
  const refusing = costsMoney ? insufficient : null
  if (refusing !== null) {
    const reason = plan.kind === 'used_up' ? 'subscription_quota_exhausted' : REASON_OF[refusing]
    return { verdict: 'block', reason, ...facts }
  }
  const whole = costsMoney ? wholeOutputMicrocents : null
  const paid = { ...facts, mayNeedMaxTokens: whole !== null && insufficientFunds(figures, gates, whole) !== null }
  if (plan.kind === 'used_up') return { verdict: 'warn', reason: 'subscription_quota_exhausted', ...paid }
  if (plan.kind === 'outside') return { verdict: 'warn', reason: 'not_plan_covered', ...paid }
  const passed = costsMoney ? insufficientFunds({ ...figures, enforcement: 'block_launch' }, gates) : null
  if (passed !== null) return { verdict: 'warn', reason: REASON_OF[passed], ...paid }
  return { verdict: 'ok', reason: isOffered ? 'payg' : null, ...paid }
}

function limitSentences(gate: 'daily' | 'monthly') {
  const { name, ended, mend } = GATE_WORDS[gate]
  return {
    warn: `${name} ${ended}. It only notifies you; the call is charged to your credit.`,
    block: `${name} ${ended}. ${mend}`,
  }
}

const SENTENCES: Readonly<Record<Reason, Readonly<Partial<Record<Verdict['verdict'], string>>>>> = {
  plan_covered: { ok: 'Your plan covers this call.' },
  payg: { ok: 'This call is paid for from your credit; a plan would cover it.' },
  not_plan_covered: { warn: 'Your plan does not cover this model; the call is paid for from your credit.' },
  subscription_quota_exhausted: {
    warn: "Your plan's quota is used up; the call is paid for from your credit.",
    block:
      "Your plan's quota is used up, and your credit or one of your spending limits leaves too little to pay for the call.",
  },
  insufficient_balance: { block: `No credit is left for this call. ${GATE_WORDS.balance.mend}` },
  daily_limit_reached: limitSentences('daily'),
  monthly_limit_reached: limitSentences('monthly'),
  preflight_unavailable: { ok: 'It is not known at this moment whether this call would be served; it may well be.' },
}

const MAX_TOKENS = 'Without max_tokens the call may cost more than is left: a smaller max_tokens may be needed.'

/** A sentence or two for the person who is about to make the call. */
export function sentenceOf({ verdict, reason, mayNeedMaxTokens }: Verdict): string {
  const sentence = (reason && SENTENCES[reason][verdict]) ?? 'This call is paid for from your credit.'
  return mayNeedMaxTokens ? `${sentence} ${MAX_TOKENS}` : sentence
}
