import { z } from 'zod'
import { lookUpForCall } from '../catalog/model.ts'
import type { Prepare } from '../edge/onceForKey.ts'
import type { OpenRequests } from '../edge/openRequests.ts'
import { type Issue, validate } from '../edge/validate.ts'
import { wholeAnswer } from '../edge/wholeAnswer.ts'
import type { ByteBudget } from '../kernel/byteBudget.ts'
import { type Refusal, refusal } from '../kernel/errors.ts'
import { ok } from '../kernel/result.ts'
import { generate, type ImagesDependencies } from './generate.ts'
import { resolveImages } from './request.ts'

export const imagesGenerationsRequest = z
  .strictObject({
    model: z.string().min(1).meta({ description: 'The id or alias of an image model.' }),
    prompt: z.string().min(1, { error: 'must not be empty' }),
    n: z.int().min(1).nullish().meta({ description: "Default 1; at most what the model's descriptor says, else 10." }),
    size: z
      .string()
      .regex(/^[1-9]\d{0,4}x[1-9]\d{0,4}$/, { error: "must be '<width>x<height>' in pixels, such as '1024x1024'" })
      .nullish()
      .meta({ description: 'Where the model has it among its parameters: GET /models.' }),
    response_format: z.enum(['b64_json']).nullish(),
  })
  .meta({ id: 'ImagesGenerationsRequest' })

export const imagesResponse = z
  .object({
    created: z.int().meta({ description: 'Unix seconds.' }),
    data: z
      .array(z.object({ b64_json: z.string().meta({ description: 'The image: PNG, JPEG or WebP, in base64.' }) }))
      .meta({ description: 'Perhaps fewer than were asked for; those alone are charged.' }),
    usage: z.object({ image_count: z.int().meta({ description: 'The billable unit.' }) }).meta({ id: 'ImagesUsage' }),
  })
  .meta({ id: 'ImagesResponse' })

const NO_URL = refusal(
  'unsupported_parameter',
  'response_format "url" is not supported: images are in the answer. Leave response_format out, or pass "b64_json".',
  { param: 'response_format' },
)

function explain(issue: Issue, body: unknown): Refusal | null {
  const { response_format: format } = body as { readonly response_format?: unknown }
  return issue.path[0] === 'response_format' && format === 'url' ? NO_URL : null
}

/** POST /images/generations. */
export function imagesGenerations(
  dependencies: ImagesDependencies,
  openRequests: OpenRequests,
  memory: ByteBudget,
): Prepare {
  return (call) => {
    const valid = validate(imagesGenerationsRequest, call.body, 'validation_failed', explain)
    if (!valid.ok) return valid
    const { model, prompt, n, size } = valid.value
    return ok((attempt) => {
      const found = lookUpForCall(dependencies.catalog(), model, 'image')
      if (!found.ok) return found.refusal
      const request = resolveImages(found.value.model, { prompt, n: n ?? null, size: size ?? null })
      if (!request.ok) return request.refusal
      return wholeAnswer(call, attempt, { openRequests, memory }, (caller, signal, room) =>
        generate(dependencies, caller, found.value, request.value, signal, room),
      )
    })
  }
}
