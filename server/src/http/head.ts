/** Answers that are made while they are sent. */
const STREAMS: ReadonlySet<string> = new Set(['text/event-stream', 'application/jsonl', 'text/csv'])

/**
 * Answers HEAD as GET without its body; `get` answers the request as a GET. The length is GET's own (RFC 9110,
 * 8.6: a HEAD may not announce another), which neither the router nor the server would keep for a response without a body. The
 * server adds no `Date` to such a response.
 */
export async function answerHead(get: () => Promise<Response>, nowMs: number): Promise<Response> {
  const response = await get()
  const headers = new Headers(response.headers)
  headers.set('Date', new Date(nowMs).toUTCString())
  // A stream has no length, and no end. A handler that knows the length says it, so that nobody has to read a gigabyte to count it.
  const isStream = STREAMS.has(headers.get('Content-Type') ?? '')
  if (isStream || headers.has('Content-Length')) await response.body?.cancel()
  else headers.set('Content-Length', String((await response.arrayBuffer()).byteLength))
  return new Response(null, { status: response.status, headers })
}
