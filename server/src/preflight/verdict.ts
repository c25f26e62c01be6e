/** What a call would meet now, in one word and one sentence (P2). Pure: the gates are those that real calls pass. */

import type { Modality } from '../catalog/model.ts'
import { type Figures, firstShort, roomsOf } from '../money/gates.ts'
import type { PlanAnswer } from '../money/plan/gate.ts'

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
  /** Credit above what jobs hold of it, and no own limit reached that refuses calls; of a video the credit alone. */
  readonly funded: boolean
}

/** What is known of a call before it is made. */
export interface Known {
  readonly modality: Modality
  readonly plan: PlanAnswer
  /** Whether some plan on offer is for the model. */
  readonly isOffered: boolean
  /** Null: could not be read. */
  readonly figures: Figures | null
  /** False where the model costs nothing: then no call of it is refused for want of money. */
  readonly costsMoney: boolean
}

/** The gates that preflight looks at, in the order of E1; the cap of new organizations is none of them (K2). */
type Gate = 'balance' | 'daily' | 'monthly'
const GATES: readonly Gate[] = ['balance', 'daily', 'monthly']
/** Videos meet the balance alone. */
const VIDEO_GATES: readonly Gate[] = ['balance']

const REASON_OF: Readonly<Record<Gate, Reason>> = {
  balance: 'insufficient_balance',
  daily: 'daily_limit_reached',
  monthly: 'monthly_limit_reached',
}

/** Judges a call. What could not be read speaks for it, never against (rule 5). */
export function judge({ modality, plan, isOffered, figures, costsMoney }: Known): Verdict {
  const gates = modality === 'video' ? VIDEO_GATES : GATES
  const short = figures === null ? null : shortGate(figures, gates)
  const facts = {
    planCovered: plan.kind === 'covered' || plan.kind === 'used_up' || (plan.kind !== 'outside' && isOffered),
    subscribed: plan.kind === 'covered' || plan.kind === 'used_up' || plan.kind === 'outside',
    funded: short === null,
  }
  if (plan.kind === 'covered') return { verdict: 'ok', reason: 'plan_covered', ...facts }
  if (plan.kind === 'unreadable' || figures === null) {
    return { verdict: 'ok', reason: 'preflight_unavailable', ...facts }
  }
  const refusing = costsMoney ? short : null
  if (plan.kind === 'used_up') {
    return { verdict: refusing === null ? 'warn' : 'block', reason: 'subscription_quota_exhausted', ...facts }
  }
  if (refusing !== null) return { verdict: 'block', reason: REASON_OF[refusing], ...facts }
  if (plan.kind === 'outside') return { verdict: 'warn', reason: 'not_plan_covered', ...facts }
  const passed = costsMoney ? shortGate({ ...figures, enforcement: 'block_launch' }, gates) : null
  if (passed !== null) return { verdict: 'warn', reason: REASON_OF[passed], ...facts }
  return { verdict: 'ok', reason: isOffered ? 'payg' : null, ...facts }
}

/**
 * The first gate that leaves nothing, whatever is set aside for calls under way: that may come back within moments. What is
 * held for jobs is not counted on: they take long, and most of them spend it.
 */
function shortGate(figures: Figures, gates: readonly Gate[]): Gate | null {
  return firstShort(roomsOf({ ...figures, reservedMicrocents: 0n }), 0n, 1n, gates)
}

const SENTENCES: Readonly<Record<Reason, Readonly<Partial<Record<Verdict['verdict'], string>>>>> = {
  plan_covered: { ok: 'Your plan covers this call.' },
  payg: { ok: 'This call is paid for from your credit; a plan would cover it.' },
  not_plan_covered: { warn: 'Your plan does not cover this model; the call is paid for from your credit.' },
  subscription_quota_exhausted: {
    warn: "Your plan's quota is used up; the call is paid for from your credit.",
    block:
      "Your plan's quota is used up, and neither your credit nor your spending limits leave room to pay for the call.",
  },
  insufficient_balance: { block: 'There is no free credit; add some to make this call.' },
  daily_limit_reached: {
    warn: 'Your daily spending limit is reached; it only notifies, and the call is paid for from your credit.',
    block: 'Your daily spending limit is reached; it is free again at 00:00 UTC, or an admin can raise it.',
  },
  monthly_limit_reached: {
    warn: 'Your monthly spending limit is reached; it only notifies, and the call is paid for from your credit.',
    block:
      'Your monthly spending limit is reached; an admin can raise it, or it is free again with the next month in UTC.',
  },
  preflight_unavailable: { ok: 'What this call would meet can not be told at this moment; it may well be served.' },
}

/** A sentence for the person who is about to make the call. */
export function sentenceOf({ verdict, reason }: Verdict): string {
  const sentence = reason === null ? undefined : SENTENCES[reason][verdict]
  return sentence ?? 'This call is paid for from your credit.'
}
