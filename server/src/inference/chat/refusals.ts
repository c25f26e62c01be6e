/** The refusals of chat alone. */

import { GATE_WORDS } from '../../billing/admission/gateRefusals.ts'
import type { Gate } from '../../billing/admission/gates.ts'
import { type Refusal, refusal } from '../../lib/errors.ts'

/** Of a prompt that no tokenizer fits into the model's context: the model would be asked in vain. */
export const PROMPT_TOO_LONG = refusal(
  'context_length_exceeded',
  "The messages are far longer than the model's context. Nothing was charged. Shorten the messages.",
  { param: 'messages' },
)

/** Returns the error that ends an answer that is sent in part. */
export function cutMidCall(gate: Gate): Refusal {
  const { code, name, ended } = GATE_WORDS[gate]
  return refusal(code, `${name} ${ended} while the answer was generated. What was sent so far is charged.`)
}
