import type { Model, ParameterDescriptor } from '../catalog/model.ts'
import { refusal } from '../kernel/errors.ts'
import { ok, type Result, refused } from '../kernel/result.ts'

/** What is asked for, by the model's own descriptors. */
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
  const seconds = secondsOf(descriptorOf(model, 'seconds'), given.seconds)
  if (!seconds.ok) return seconds
  const size = sizeOf(descriptorOf(model, 'size'), given.size)
  if (!size.ok) return size
  return ok({ prompt: given.prompt, seconds: seconds.value, size: size.value })
}

function descriptorOf({ parameters }: Model, name: string): ParameterDescriptor | null {
  return parameters.find((descriptor) => descriptor.name === name) ?? null
}

/** The settings give active video models a descriptor with a default and a maximum. */
function secondsOf(descriptor: ParameterDescriptor | null, given: number | null): Result<number> {
  const seconds = given ?? Number(descriptor?.default)
  const least = descriptor?.min ?? 1
  const most = descriptor?.max ?? 1
  if (seconds >= least && seconds <= most) return ok(seconds)
  const message = `'seconds' must be from ${least} to ${most} for this model.`
  return refused(refusal('invalid_request', message, { param: 'seconds' }))
}

function sizeOf(descriptor: ParameterDescriptor | null, given: string | null): Result<string | null> {
  if (descriptor === null) {
    if (given === null) return ok(null)
    return refused(refusal('unsupported_parameter', "This model takes no 'size'; leave it out.", { param: 'size' }))
  }
  const size = given ?? (typeof descriptor.default === 'string' ? descriptor.default : null)
  if (size === null || descriptor.enum?.includes(size) === true) return ok(size)
  const message = `'size' must be one of ${descriptor.enum?.join(', ')} for this model.`
  return refused(refusal('invalid_request', message, { param: 'size' }))
}
