/** The refusals of chat alone. */

import { GATE_WORDS } from '../../billing/admission/gateRefusals.ts'
import type { Gate } from '../../billing/admission/gates.ts'
import type { Model } from '../../catalog/model.ts'
import { type Refusal, refusal } from '../../lib/errors.ts'

/** Of a prompt that no tokenizer fits into the model's context: the model would be asked in vain. */
export const PROMPT_TOO_LONG = refusal(
  'context_length_exceeded',
  "The messages are far longer than the model's context. Nothing was charged. Shorten the messages.",
  { param: 'messages' },
)

/** The names of parameters in the settings, where requests may use another one (C9). */
const DECLARED_AS: Readonly<Record<string, string>> = { max_completion_tokens: 'max_tokens' }

/** Refuses the parameters among `given` that the model does not declare (E5), all in one message (E17). Null: there are none. */
export function refuseUndeclared({ supportedParameters }: Model, given: readonly string[]): Refusal | null {
  const undeclared = given.filter((name) => !supportedParameters.includes(DECLARED_AS[name] ?? name))
  const [param] = undeclared
  if (param === undefined) return null
  const [noun, pronoun] = undeclared.length === 1 ? ['parameter', 'it'] : ['parameters', 'them']
  const names = undeclared.map((name) => `'${name}'`).join(', ')
  return refusal('unsupported_parameter', `This model does not take the ${noun} ${names}; leave ${pronoun} out.`, {
    param,
  })
}

/** Returns the error that ends an answer that is sent in part. */
export function cutMidCall(gate: Gate): Refusal {
  const { code, name, ended } = GATE_WORDS[gate]
  return refusal(code, `${name} ${ended} while the answer was generated. What was sent so far is charged.`)
}
