/** The refusals of the gates on money: the code and the words of each gate stand here, for every call and job. */

import { type Refusal, refusal } from '../../lib/errors.ts'
import { type Gate, NEW_ACCOUNT_CAP } from './gates.ts'

interface GateWords {
  readonly code: 'insufficient_balance' | 'quota_exceeded'
  readonly name: string
  /** The verb for a gate that leaves too little. */
  readonly lacks: string
  /** The verb for a gate that has nothing left. */
  readonly ended: string
  /** A sentence that tells what to do. */
  readonly mend: string
}

export const GATE_WORDS: Readonly<Record<Gate, GateWords>> = {
  balance: {
    code: 'insufficient_balance',
    name: 'The credit balance',
    lacks: 'does not cover',
    ended: 'ran out',
    mend: 'Add credit.',
  },
  daily: {
    code: 'quota_exceeded',
    name: 'The daily spending limit',
    lacks: 'does not leave enough for',
    ended: 'was reached',
    mend: 'Wait until 00:00 UTC, or ask an admin to raise it.',
  },
  monthly: {
    code: 'quota_exceeded',
    name: 'The monthly spending limit',
    lacks: 'does not leave enough for',
    ended: 'was reached',
    mend: 'Wait until the next month (UTC), or ask an admin to raise it.',
  },
  newAccount: {
    code: 'quota_exceeded',
    name: `The spending cap of new accounts, ${NEW_ACCOUNT_CAP},`,
    lacks: 'does not leave enough for',
    ended: 'was reached',
    mend: 'Wait, or make a first payment.',
  },
}

/** Returns the refusal (P1) of `subject`, such as "this video", by a gate that leaves too little. `hint` is one more sentence. */
export function insufficientFor(gate: Gate, subject: string, hint?: string): Refusal {
  const { code, name, lacks, mend } = GATE_WORDS[gate]
  const message = `${name} ${lacks} ${subject}. ${mend}`
  return refusal(code, hint === undefined ? message : `${message} ${hint}`)
}

/** The refusal of a call or job whose money others have, where too many wait for theirs already (P1). */
export const CROWDED = refusal(
  'upstream_unavailable',
  'Too many requests wait for money at this moment. Nothing was done or charged; send fewer at once, or try again shortly.',
  { retryAfterSeconds: 1 },
)

/** Returns the refusal of `subjects`, such as "videos", while a gate can't be read (P3). */
export function unreadableFor(subjects: string): Refusal {
  return refusal(
    'upstream_unavailable',
    `The service can't take ${subjects} at this moment. Nothing was done or charged; try again shortly.`,
    { retryAfterSeconds: 1 },
  )
}
