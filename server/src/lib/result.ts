import type { Refusal } from './errors.ts'

/** The result of a use case that may be refused. */
export type Result<T> = { readonly ok: true; readonly value: T } | { readonly ok: false; readonly refusal: Refusal }

export function ok<T>(value: T): Result<T> {
  return { ok: true, value }
}

export function refused<T = never>(refusal: Refusal): Result<T> {
  return { ok: false, refusal }
}
