import { z } from 'zod'
import { lookUpForCall } from '../../catalog/model.ts'
import type { CompatSettings } from '../../catalog/settings.ts'
import type { Issue } from '../../http/faults.ts'
import type { Prepare } from '../../http/onceForKey.ts'
import { validate } from '../../http/validate.ts'
import { wholeAnswer } from '../../http/wholeAnswer.ts'
import type { ByteBudget } from '../../lib/byteBudget.ts'
import type { CallSignal } from '../../lib/callSignal.ts'
import { type Refusal, refusal } from '../../lib/errors.ts'
import { ok, refused } from '../../lib/result.ts'
import { DIMENSIONS_MOST } from '../../providers/dialect/spec.ts'
import type { InferenceCaller } from '../call/caller.ts'
import { paidBodyOf } from '../call/payWhole.ts'
import { type EmbeddingsDependencies, embed } from './embed.ts'
import { INPUTS_MOST } from './request.ts'

const text = z.string().min(1, { error: 'must not be empty' })

const embeddingsRequest = z
  .strictObject({
    model: z.string().min(1).meta({ description: 'The id or alias of an embedding model.' }),
    input: z
      .union([text, z.array(text).min(1).max(INPUTS_MOST)])
      .meta({ description: `A text, or a list of up to ${INPUTS_MOST} texts. Token ids are not accepted.` }),
    dimensions: z
      .int()
      .min(1)
      .max(DIMENSIONS_MOST)
      .nullish()
      .meta({ description: 'The length of the vectors, for models that can shorten them.' }),
    encoding_format: z.enum(['float']).nullish().meta({ description: 'Set it for official OpenAI clients.' }),
    user: z.string().nullish().meta({ description: 'Your own id of the end user.' }),
  })
  .meta({ id: 'EmbeddingsRequest' })

const lenientRequest = embeddingsRequest
  .extend({
    encoding_format: z.enum(['float', 'base64']).nullish().meta({ description: 'Default float.' }),
  })
  .meta({ id: 'LenientEmbeddingsRequest' })

type RequestBody = z.infer<typeof lenientRequest>

/** Returns the schema of a request: `base64` is allowed where the settings allow it. */
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
                '32-bit floats. With `base64`, if the server allows it: a string, their little-endian bytes in base64.',
            }),
            index: z.int().meta({ description: 'The index of its input.' }),
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
  'encoding_format "base64" is not supported. Official OpenAI clients send it unless you name a format: pass encoding_format: "float".',
  { param: 'encoding_format' },
)

const wrongInput = (what: string) => refusal('invalid_request', `'input': ${what}.`, { param: 'input' })

/**
 * Returns the refusal of a wrong `input`, in the words of embeddings; null: none found. It runs before the schema,
 * which would go through thousands of inputs first.
 */
function refuseInput(body: unknown): Refusal | null {
  if (typeof body !== 'object' || body === null || !('input' in body)) return null
  const { input } = body
  if (input === '') return wrongInput('must not be empty')
  if (!Array.isArray(input)) return null
  if (input.length === 0) return wrongInput('must hold at least one text')
  if (input.length > INPUTS_MOST) {
    return wrongInput(
      `holds ${input.length} texts, and one request may have at most ${INPUTS_MOST}; send the rest in other requests`,
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

/** A list of texts in which {@link refuseInput} finds nothing wrong; null: the input is something else. */
function listOfTexts(body: unknown): readonly string[] | null {
  if (typeof body !== 'object' || body === null || !('input' in body)) return null
  const { input } = body
  return Array.isArray(input) && input.every((item) => typeof item === 'string') ? input : null
}

/** The refusal of the parameters beside `input` that are not supported, which goes before all others (E17); null: there are none. */
function unsupportedOf(schema: z.ZodType, body: unknown): Refusal | null {
  const valid = validate(schema, { ...(body as object), input: 'x' }, 'invalid_request', explain)
  return !valid.ok && valid.refusal.code === 'unsupported_parameter' ? valid.refusal : null
}

/** POST /embeddings. */
export function embeddings(
  dependencies: EmbeddingsDependencies,
  memoryBudget: ByteBudget,
  compat: CompatSettings,
): Prepare {
  const schema = embeddingsRequestSchema(compat)
  return (call) => {
    const wrong = refuseInput(call.body)
    if (wrong !== null) return refused(unsupportedOf(schema, call.body) ?? wrong)
    const list = listOfTexts(call.body)
    // One text stands for the list: the schema takes as long for thousands of texts as all other work on the request.
    const body = list === null ? call.body : { ...(call.body as object), input: 'x' }
    const valid = validate(schema, body, 'invalid_request', explain)
    if (!valid.ok) return valid
    const { model, input, dimensions, user, encoding_format: format } = valid.value
    const request = {
      model,
      inputs: list ?? (typeof input === 'string' ? [input] : input),
      dimensions: dimensions ?? null,
      format: format ?? 'float',
      user: user ?? null,
    }
    return ok((attempt) => {
      const found = lookUpForCall(dependencies.catalog(), model, 'embedding')
      if (!found.ok) return found.refusal
      const memory = memoryBudget.open(call.principal.organizationId)
      const pay = (caller: InferenceCaller, signal: CallSignal) =>
        embed(dependencies, caller, found.value, request, signal, memory)
      const isTraced = dependencies.telemetry !== undefined
      return wholeAnswer(call, attempt, { clock: dependencies.clock, memory, isTraced }, pay, paidBodyOf)
    })
  }
}
