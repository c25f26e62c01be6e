import { z } from 'zod'
import { jsonAnswer } from '../../http/jsonAnswer.ts'
import type { Handle } from '../../http/pipeline.ts'
import { refusal } from '../../lib/errors.ts'
import { askPreflight, type PreflightDependencies } from './ask.ts'
import { REASONS, sentenceOf } from './verdict.ts'

export const preflightQuery = z.object({
  model: z.string().min(1).meta({ description: 'A model id or alias, optionally with `:economy`.' }),
})

export const inferencePreflight = z
  .object({
    model: z.string().meta({ description: 'The canonical id.' }),
    verdict: z
      .enum(['ok', 'warn', 'block'])
      .meta({ description: '`block`: the call would be refused with 402 or 429.' }),
    message: z.string().meta({ description: 'A sentence or two to show to a person.' }),
    plan_covered: z.boolean(),
    subscribed: z.boolean(),
    funded: z
      .boolean()
      .meta({ description: 'There is credit beyond what is held, and no limit that refuses calls is reached.' }),
    reason: z.enum(REASONS).optional().meta({ description: 'Absent on a plain ok.' }),
  })
  .meta({ id: 'InferencePreflight' })

const NO_MODEL = refusal('invalid_request', "'model' is required: name the model that you are about to call.", {
  param: 'model',
})

/** GET /inference/preflight. */
export function showPreflight(dependencies: PreflightDependencies): Handle {
  return async (call) => {
    const name = call.query.get('model')
    if (name === null || name === '') return NO_MODEL
    const asked = await askPreflight(dependencies, call.principal.organizationId, name)
    if (!asked.ok) return asked.refusal
    const { model, verdict, reason, planCovered, subscribed, funded } = asked.value
    const body: z.infer<typeof inferencePreflight> = {
      model,
      verdict,
      message: sentenceOf(asked.value),
      plan_covered: planCovered,
      subscribed,
      funded,
      ...(reason === null ? {} : { reason }),
    }
    return jsonAnswer(body)
  }
}
