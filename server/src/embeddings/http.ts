import { z } from 'zod'
import { lookUpForCall } from '../catalog/model.ts'
import type { CompatSettings } from '../catalog/settings.ts'
import type { Prepare } from '../edge/onceForKey.ts'
import type { OpenRequests } from '../edge/openRequests.ts'
import { type Issue, validate } from '../edge/validate.ts'
import { wholeAnswer } from '../edge/wholeAnswer.ts'
import type { ByteBudget } from '../kernel/byteBudget.ts'
import { type Refusal, refusal } from '../kernel/errors.ts'
import { ok, refused } from '../kernel/result.ts'
import { type EmbeddingsDependencies, embed } from './embed.ts'
import { INPUTS_MOST } from './request.ts'

/** Far above every model's; a bound on what a request can make an upstream try. */
const DIMENSIONS_MOST = 65_536

const text = z.string().min(1, { error: 'must not be empty' })

const embeddingsRequest = z
  .strictObject({
    model: z.string().min(1).meta({ description: 'The id or alias of an embedding model.' }),
    input: z
      .union([text, z.array(text).min(1).max(INPUTS_MOST)])
      .meta({ description: `A text, or up to ${INPUTS_MOST} of them. Token ids are not taken.` }),
    dimensions: z
      .int()
      .min(1)
      .max(DIMENSIONS_MOST)
      .nullish()
      .meta({ description: 'For models that can shorten their vectors.' }),
    encoding_format: z.enum(['float']).nullish().meta({ description: 'Official OpenAI clients must be told it.' }),
    user: z.string().nullish().meta({ description: 'Your own id of the end user.' }),
  })
  .meta({ id: 'EmbeddingsRequest' })

const lenientRequest = embeddingsRequest
  .extend({
    encoding_format: z.enum(['float', 'base64']).nullish().meta({ description: 'Default float.' }),
  })
  .meta({ id: 'LenientEmbeddingsRequest' })

type RequestBody = z.infer<typeof lenientRequest>

/** What a request may say under these settings. */
export function embeddingsRequestSchema(compat: CompatSettings): z.ZodType<RequestBody> {
  return compat.embeddingsBase64 ? lenientRequest : embeddingsRequest
}

export const embeddingsResponse = z
  .object({
    object: z.literal('list'),
    data: z
      .array(
        z
          .object({
            object: z.literal('embedding'),
            embedding: z.union([z.array(z.number()), z.string()]).meta({
              description:
                '32-bit floats; as a string, where the server allows to ask for it, their little-endian bytes in base64.',
            }),
            index: z.int().meta({ description: 'The place of its input.' }),
          })
          .meta({ id: 'Embedding' }),
      )
      .meta({ description: 'In the order of the inputs.' }),
    model: z.string().meta({ description: 'The canonical id.' }),
    usage: z.object({ prompt_tokens: z.int(), total_tokens: z.int() }).meta({ id: 'EmbeddingsUsage' }),
  })
  .meta({ id: 'EmbeddingsResponse' })

const NO_BASE64 = refusal(
  'unsupported_parameter',
  'encoding_format "base64" is not supported. Official OpenAI clients send it where the caller names no format: pass encoding_format: "float".',
  { param: 'encoding_format' },
)

const wrongInput = (what: string) => refusal('invalid_request', `'input': ${what}.`, { param: 'input' })

/** What embeddings say in their own words. Looked at before the schema, which would go through thousands of inputs first. */
function refuseInput(body: unknown): Refusal | null {
  if (typeof body !== 'object' || body === null || !('input' in body)) return null
  const { input } = body
  if (input === '') return wrongInput('must not be empty')
  if (!Array.isArray(input)) return null
  if (input.length === 0) return wrongInput('must hold at least one text')
  if (input.length > INPUTS_MOST) {
    return wrongInput(
      `holds ${input.length} texts, and one request may have at most ${INPUTS_MOST}; send the rest in others`,
    )
  }
  if (input.some((item) => typeof item === 'number' || Array.isArray(item))) {
    return wrongInput('token ids are not supported; send the texts themselves, as strings')
  }
  const empty = input.indexOf('')
  return empty === -1 ? null : wrongInput(`the text at index ${empty} is empty; leave it out`)
}

function explain(issue: Issue, body: unknown): Refusal | null {
  const [first] = issue.path
  const { input, encoding_format: format } = body as { readonly input?: unknown; readonly encoding_format?: unknown }
  if (first === 'encoding_format') return format === 'base64' ? NO_BASE64 : null
  if (first !== 'input') return null
  // A union's own words do not say that there is nothing.
  if ((input ?? null) === null) return refusal('invalid_request', "'input' is required.", { param: 'input' })
  return wrongInput('must be a string, or an array of strings')
}

/** POST /embeddings. */
export function embeddings(
  dependencies: EmbeddingsDependencies,
  openRequests: OpenRequests,
  memory: ByteBudget,
  compat: CompatSettings,
): Prepare {
  const schema = embeddingsRequestSchema(compat)
  return (call) => {
    const wrong = refuseInput(call.body)
    if (wrong !== null) return refused(wrong)
    const valid = validate(schema, call.body, 'invalid_request', explain)
    if (!valid.ok) return valid
    const { model, input, dimensions, user, encoding_format: format } = valid.value
    const request = {
      model,
      inputs: typeof input === 'string' ? [input] : input,
      dimensions: dimensions ?? null,
      format: format ?? 'float',
      user: user ?? null,
    }
    return ok((attempt) => {
      const found = lookUpForCall(dependencies.catalog(), model, 'embedding')
      if (!found.ok) return found.refusal
      return wholeAnswer(call, attempt, { openRequests, memory }, (caller, signal, room) =>
        embed(dependencies, caller, found.value, request, signal, room),
      )
    })
  }
}
