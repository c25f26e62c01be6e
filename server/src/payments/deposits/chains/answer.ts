/** The answer of a node by JSON-RPC, parsed once. Pure, so that a thread does the same. */

import { z } from 'zod'
import { nestsDeeperThan } from '../../../lib/jsonText.ts'

/** Answers nest four deep or five. The parser's stack must not be the limit. */
const DEPTH_MOST = 32

const answerShape = z.object({
  result: z.unknown().optional(),
  error: z.object({ code: z.number() }).nullish(),
})

/** The result; or that the node refused, that the result has another form, or that there is no JSON-RPC. */
export type NodeAnswer<T> =
  | { readonly kind: 'read'; readonly value: T }
  | { readonly kind: 'refused'; readonly code: number }
  | { readonly kind: 'otherForm' }
  | { readonly kind: 'none' }

/** Parses the answer of a node, whose result must have this shape. */
export function readAnswer<T>(bytes: Uint8Array, shape: z.ZodType<T>): NodeAnswer<T> {
  const answer = answerShape.safeParse(parseText(new TextDecoder().decode(bytes)))
  if (!answer.success) return { kind: 'none' }
  const { error, result } = answer.data
  if (error != null) return { kind: 'refused', code: error.code }
  const read = shape.safeParse(result)
  return read.success ? { kind: 'read', value: read.data } : { kind: 'otherForm' }
}

/** Null where it is no JSON, or nests too deep. */
function parseText(text: string): unknown {
  if (nestsDeeperThan(text, DEPTH_MOST)) return null
  try {
    return JSON.parse(text)
  } catch {
    return null
  }
}
