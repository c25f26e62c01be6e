/**
 * Answers HEAD as GET without its body. The length is GET's own (RFC 9110, 8.6: a HEAD may not announce another), which
 * neither the router nor the server would keep for a response without a body.
 */
export async function answerHead(request: Request, get: (request: Request) => Promise<Response>): Promise<Response> {
  const response = await get(new Request(request.url, { headers: request.headers, signal: request.signal }))
  // A stream has no length, and no end.
  if (response.headers.get('Content-Type') === 'text/event-stream') {
    await response.body?.cancel()
    return new Response(null, { status: response.status, headers: response.headers })
  }
  const headers = new Headers(response.headers)
  // Who knows the length says it, so that nobody has to read a gigabyte to count it.
  if (headers.has('Content-Length')) await response.body?.cancel()
  else headers.set('Content-Length', String((await response.arrayBuffer()).byteLength))
  return new Response(null, { status: response.status, headers })
}
