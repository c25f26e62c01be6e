import type { Model, ParameterDescriptor } from '../catalog/model.ts'
import type { ImagePrice } from '../catalog/price.ts'
import { type Refusal, refusal } from '../kernel/errors.ts'
import { ok, type Result, refused } from '../kernel/result.ts'
import type { Worst } from '../money/gates.ts'
import { priceImages } from '../money/pricing.ts'
import type { ImageSize } from '../upstream/spec.ts'

/** What a request asks for, by the model's own descriptors. */
export interface ImagesRequest {
  readonly prompt: string
  /** At least 1. */
  readonly count: number
  /** Null: the model's own. */
  readonly size: ImageSize | null
  /** The most pixels that one image is charged for; infinite where nobody could say, and no price depends on it. */
  readonly pixelsMost: number
}

/** Images of a request to a model that says nothing of it (I3). */
const COUNT_MOST = 10

const wrong = (param: string, message: string) => refused<never>(refusal('invalid_request', message, { param }))

/** Holds `n` and `size` against what the model declares (I3, E5). Null: not given. */
export function resolveImages(
  model: Model,
  given: { readonly prompt: string; readonly n: number | null; readonly size: string | null },
): Result<ImagesRequest> {
  const count = countOf(descriptorOf(model, 'n'), given.n)
  if (!count.ok) return count
  const descriptor = descriptorOf(model, 'size')
  const refusedSize = refuseSize(descriptor, given.size)
  if (refusedSize !== null) return refused(refusedSize)
  const size = given.size ?? (typeof descriptor?.default === 'string' ? descriptor.default : null)
  const parsed = size === null ? null : parseSize(size)
  return ok({ prompt: given.prompt, count: count.value, size: parsed, pixelsMost: pixelsMost(parsed, descriptor) })
}

function descriptorOf({ parameters }: Model, name: string): ParameterDescriptor | null {
  return parameters.find((descriptor) => descriptor.name === name) ?? null
}

function countOf(descriptor: ParameterDescriptor | null, given: number | null): Result<number> {
  const count = given ?? (typeof descriptor?.default === 'number' ? descriptor.default : (descriptor?.min ?? 1))
  const least = descriptor?.min ?? 1
  const most = descriptor?.max ?? COUNT_MOST
  if (count >= least && count <= most) return ok(count)
  return wrong('n', `'n' must be from ${least} to ${most} for this model.`)
}

function refuseSize(descriptor: ParameterDescriptor | null, given: string | null): Refusal | null {
  if (given === null) return null
  if (descriptor === null) {
    return refusal('unsupported_parameter', "This model takes no 'size'; leave it out.", { param: 'size' })
  }
  const { enum: choices } = descriptor
  if (choices === undefined || choices.includes(given)) return null
  return refusal('invalid_request', `'size' must be one of ${choices.join(', ')} for this model.`, { param: 'size' })
}

/** Reads `<W>x<H>`; the edges have refused everything else. */
function parseSize(text: string): ImageSize {
  const [width = 0, height = 0] = text.split('x').map(Number)
  return { width, height }
}

/** An image larger than what was asked for is so at the upstream's expense. */
function pixelsMost(size: ImageSize | null, descriptor: ParameterDescriptor | null): number {
  const sizes = size === null ? (descriptor?.enum ?? []).map(parseSize) : [size]
  return sizes.length === 0 ? Number.POSITIVE_INFINITY : Math.max(...sizes.map(({ width, height }) => width * height))
}

/** What a request can come to, for the gates: all of it is known before it starts. */
export function worstCase(price: ImagePrice, { count, pixelsMost: most }: ImagesRequest): Worst {
  // Only a price by the megapixel asks for pixels, and its models say how many there can be.
  const microcents = priceImages(price, count, Number.isFinite(most) ? count * most : 0)
  return { wholeMicrocents: microcents, firstStepMicrocents: microcents }
}
