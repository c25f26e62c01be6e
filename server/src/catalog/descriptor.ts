import { type Refusal, refusal } from '../lib/errors.ts'
import { ok, type Result, refused } from '../lib/result.ts'
import type { Model, ParameterDescriptor } from './model.ts'

/** Returns the descriptor by which a model declares a parameter; null where it does not. */
export function descriptorOf({ parameters }: Model, name: string): ParameterDescriptor | null {
  return parameters.find((descriptor) => descriptor.name === name) ?? null
}

/**
 * Returns a number that a request gives, or the model's default, or its least. Refuses one outside the model's range, which is
 * from 1 to `most` where the model says nothing (E5, I3).
 */
export function resolveNumber(model: Model, name: string, given: number | null, most: number): Result<number> {
  const descriptor = descriptorOf(model, name)
  const from = descriptor?.min ?? 1
  const to = descriptor?.max ?? most
  const value = given ?? (typeof descriptor?.default === 'number' ? descriptor.default : from)
  if (value >= from && value <= to) return ok(value)
  return refused(wrong(name, `'${name}' must be from ${from} to ${to} for this model.`))
}

/** Returns the size that a request gives, or the model's default, or null. Refuses one that the model does not declare (E5, I3). */
export function resolveSize(model: Model, given: string | null): Result<string | null> {
  const descriptor = descriptorOf(model, 'size')
  if (given === null) return ok(typeof descriptor?.default === 'string' ? descriptor.default : null)
  if (descriptor === null) {
    return refused(refusal('unsupported_parameter', "This model takes no 'size'; leave it out.", { param: 'size' }))
  }
  const { enum: choices } = descriptor
  if (choices === undefined || choices.includes(given)) return ok(given)
  return refused(wrong('size', `'size' must be one of ${choices.join(', ')} for this model.`))
}

function wrong(param: string, message: string): Refusal {
  return refusal('invalid_request', message, { param })
}
