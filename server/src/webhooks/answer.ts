/** An answer in JSON. Its Content-Type is as the description says it, and as a replay says it again. */
export function jsonAnswer(body: object, status = 200): Response {
  return new Response(JSON.stringify(body), { status, headers: { 'Content-Type': JSON_TYPE } })
}

const JSON_TYPE = 'application/json'

/** The same to be kept for who asks again. */
export function keptJson(body: object, status: number) {
  const bytes = new TextEncoder().encode(JSON.stringify(body))
  return { status, contentType: JSON_TYPE, operationId: null, body: bytes }
}
