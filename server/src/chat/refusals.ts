/** What is told to whose money ran out in mid-call. */

import { type Refusal, refusal } from '../kernel/errors.ts'
import type { Gate } from '../money/gates.ts'

const GATE_NAMES: Readonly<Record<Gate, string>> = {
  balance: 'The credit balance',
  daily: 'The room under the daily spending limit',
  monthly: 'The room under the monthly spending limit',
  newAccount: 'The room under the spending cap of new accounts',
}

const codeOf = (gate: Gate) => (gate === 'balance' ? 'insufficient_balance' : 'quota_exceeded')

/** Of an answer a part of which has left. */
export function cutMidCall(gate: Gate): Refusal {
  return refusal(
    codeOf(gate),
    `${GATE_NAMES[gate]} ran out while the answer was generated. What was sent so far is charged.`,
  )
}

/** Of an answer none of which has left. */
export function cutFromTheStart(gate: Gate): Refusal {
  return refusal(
    codeOf(gate),
    `${GATE_NAMES[gate]} does not cover this answer. Nothing was charged. Ask for fewer tokens.`,
  )
}
