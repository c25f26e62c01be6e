import { resolveNumber, resolveSize } from '../catalog/descriptor.ts'
import type { Model } from '../catalog/model.ts'
import { ok, type Result } from '../lib/result.ts'

/** The video that a request asks for, checked against the descriptors of its model. */
export interface VideoRequest {
  readonly prompt: string
  /** At least 1: what is held, and at most billed. */
  readonly seconds: number
  /** `<width>x<height>`; null: the model's own. */
  readonly size: string | null
}

/** Holds `seconds` and `size` against what the model declares (E5). Null: not given. */
export function resolveVideo(
  model: Model,
  given: { readonly prompt: string; readonly seconds: number | null; readonly size: string | null },
): Result<VideoRequest> {
  // Before the value of another: a parameter that the model does not take is named first (E17).
  const size = resolveSize(model, given.size)
  if (!size.ok) return size
  // The settings give active video models a descriptor with a default and a maximum.
  const seconds = resolveNumber(model, 'seconds', given.seconds, 1)
  if (!seconds.ok) return seconds
  return ok({ prompt: given.prompt, seconds: seconds.value, size: size.value })
}
