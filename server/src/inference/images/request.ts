import type { WorstCase } from '../../billing/admission/gates.ts'
import type { ImageUsage } from '../../billing/charges/charge.ts'
import { priceImages } from '../../billing/charges/pricing.ts'
import { descriptorOf, resolveNumber, resolveSize } from '../../catalog/descriptor.ts'
import type { Model, ParameterDescriptor } from '../../catalog/model.ts'
import type { ImagePrice } from '../../catalog/price.ts'
import { ok, type Result } from '../../lib/result.ts'
import type { ImageSize } from '../../providers/dialect/spec.ts'

/** The images that a request asks for, checked against the descriptors of its model. */
export interface ImagesRequest {
  readonly prompt: string
  /** At least 1. */
  readonly count: number
  /** Null: the model's own. */
  readonly size: ImageSize | null
  /**
   * The most pixels that one image is charged for; `Infinity` when the size is unknown and the price does not depend
   * on it.
   */
  readonly pixelsMost: number
}

/** Images of a request to a model that says nothing of it (I3). */
const COUNT_MOST = 10

/** Holds `n` and `size` against what the model declares (I3, E5). Null: not given. */
export function resolveImages(
  model: Model,
  given: { readonly prompt: string; readonly n: number | null; readonly size: string | null },
): Result<ImagesRequest> {
  // Before the value of another: a parameter that the model does not take is named first (E17).
  const size = resolveSize(model, given.size)
  if (!size.ok) return size
  const count = resolveNumber(model, 'n', given.n, COUNT_MOST)
  if (!count.ok) return count
  const parsed = size.value === null ? null : parseSize(size.value)
  const most = pixelsMost(parsed, descriptorOf(model, 'size'))
  return ok({ prompt: given.prompt, count: count.value, size: parsed, pixelsMost: most })
}

/** Reads `<W>x<H>`; the schema has refused everything else. */
function parseSize(text: string): ImageSize {
  const [width = 0, height = 0] = text.split('x').map(Number)
  return { width, height }
}

/** An image larger than what was asked for is so at the provider's expense. */
function pixelsMost(size: ImageSize | null, descriptor: ParameterDescriptor | null): number {
  const sizes = size === null ? (descriptor?.enum ?? []).map(parseSize) : [size]
  return sizes.length === 0 ? Number.POSITIVE_INFINITY : Math.max(...sizes.map(({ width, height }) => width * height))
}

/** The most that a request is charged for. */
export function imagesAtMost({ count, pixelsMost: most }: ImagesRequest): ImageUsage {
  return { count, pixels: count * most }
}

/**
 * Returns the most that a request can cost, for the gates. The first step is the whole: no hold for images is
 * extended.
 */
export function imageWorstCase(price: ImagePrice, request: ImagesRequest): WorstCase {
  const { count, pixels } = imagesAtMost(request)
  // Only a price by the megapixel asks for pixels, and its models say how many there can be.
  const microcents = priceImages(price, count, Number.isFinite(pixels) ? pixels : 0)
  return { wholeMicrocents: microcents, firstStepMicrocents: microcents }
}
