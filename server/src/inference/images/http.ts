import { z } from 'zod'
import { lookUpForCall } from '../../catalog/model.ts'
import type { Issue } from '../../http/faults.ts'
import type { Prepare } from '../../http/onceForKey.ts'
import { validate } from '../../http/validate.ts'
import { wholeAnswer } from '../../http/wholeAnswer.ts'
import type { ByteBudget } from '../../lib/byteBudget.ts'
import type { CallSignal } from '../../lib/callSignal.ts'
import { type Refusal, refusal } from '../../lib/errors.ts'
import { ok } from '../../lib/result.ts'
import type { InferenceCaller } from '../call/caller.ts'
import type { InferenceDependencies } from '../call/dependencies.ts'
import { paidBodyOf } from '../call/payWhole.ts'
import { generate } from './generate.ts'
import { resolveImages } from './request.ts'

export const imagesGenerationsRequest = z
  .strictObject({
    model: z.string().min(1).meta({ description: 'The id or alias of an image model.' }),
    prompt: z.string().min(1, { error: 'must not be empty' }),
    n: z.int().min(1).nullish().meta({ description: "Default 1; at most the model's max for it, else 10." }),
    size: z
      .string()
      .regex(/^[1-9]\d{0,4}x[1-9]\d{0,4}$/, { error: "must be '<width>x<height>' in pixels, such as '1024x1024'" })
      .nullish()
      .meta({ description: 'Only for models that list it among their parameters (GET /models).' }),
    response_format: z.enum(['b64_json']).nullish(),
  })
  .meta({ id: 'ImagesGenerationsRequest' })

export const imagesResponse = z
  .object({
    created: z.int().meta({ description: 'Unix seconds.' }),
    data: z
      .array(z.object({ b64_json: z.string().meta({ description: 'The image: PNG, JPEG or WebP, in base64.' }) }))
      .meta({ description: 'May be fewer than requested; only these are charged.' }),
    usage: z.object({ image_count: z.int().meta({ description: 'The billable unit.' }) }).meta({ id: 'ImagesUsage' }),
  })
  .meta({ id: 'ImagesResponse' })

const NO_URL = refusal(
  'unsupported_parameter',
  'response_format "url" is not supported: the answer holds the images themselves. Leave response_format out, or pass "b64_json".',
  { param: 'response_format' },
)

function explain(issue: Issue, body: unknown): Refusal | null {
  const { response_format: format } = body as { readonly response_format?: unknown }
  return issue.path[0] === 'response_format' && format === 'url' ? NO_URL : null
}

/** POST /images/generations. */
export function imagesGenerations(dependencies: InferenceDependencies, memoryBudget: ByteBudget): Prepare {
  return (call) => {
    const valid = validate(imagesGenerationsRequest, call.body, 'validation_failed', explain)
    if (!valid.ok) return valid
    const { model, prompt, n, size } = valid.value
    return ok((attempt) => {
      const found = lookUpForCall(dependencies.catalog(), model, 'image')
      if (!found.ok) return found.refusal
      const request = resolveImages(found.value.model, { prompt, n: n ?? null, size: size ?? null })
      if (!request.ok) return request.refusal
      const memory = memoryBudget.open(call.principal.organizationId)
      const pay = (caller: InferenceCaller, signal: CallSignal) =>
        generate(dependencies, caller, found.value, request.value, signal, memory)
      const isTraced = dependencies.telemetry !== undefined
      return wholeAnswer(call, attempt, { clock: dependencies.clock, memory, isTraced }, pay, paidBodyOf)
    })
  }
}
