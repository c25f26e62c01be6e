import type { KeptAnswer } from './idempotency/answer.ts'

export const JSON_TYPE = 'application/json'

/** Returns an answer in JSON. Its Content-Type is the one that the description and a replay say. */
export function jsonAnswer(body: object, status = 200, headers: Readonly<Record<string, string>> = {}): Response {
  return new Response(JSON.stringify(body), { status, headers: { 'Content-Type': JSON_TYPE, ...headers } })
}

/** Returns the same answer, to be kept for an Idempotency-Key. */
export function keptJson(body: object, status: number): KeptAnswer {
  return { status, contentType: JSON_TYPE, operationId: null, body: new TextEncoder().encode(JSON.stringify(body)) }
}

/** An answer without a body, to be kept. */
export const KEPT_NOTHING: KeptAnswer = { status: 204, contentType: null, operationId: null, body: new Uint8Array() }
