/** A client that remembers exactly how much of its answer it has received. */

import { askFor, type CountingProvider, longEnough } from './countingProvider.ts'
import type { PlannedCall } from './killPlan.ts'

export interface Received {
  readonly call: PlannedCall
  /** Null: no answer began. */
  status: number | null
  /** The completion's id, as soon as it was seen. */
  id: string | null
  /** Pieces of text seen in a stream. */
  pieces: number
  /** The JSON body came to its end, or `[DONE]` was seen, without an error in it. */
  whole: boolean
  /** The code of the refusal, or of the error in mid-stream. */
  code: string | null
  hungUp: boolean
}

/** Makes one call. Never rejects: what became of it is in the result. */
export async function makeCall(url: string, key: string, call: PlannedCall): Promise<Received> {
  const received: Received = { call, status: null, id: null, pieces: 0, whole: false, code: null, hungUp: false }
  const leaving = new AbortController()
  try {
    const response = await fetch(`${url}/chat/completions`, {
      method: 'POST',
      headers: { Authorization: `Bearer ${key}` },
      body: JSON.stringify({
        model: `svc/${call.model}`,
        stream: call.stream,
        messages: [{ role: 'user', content: contentOf(call) }],
      }),
      signal: leaving.signal,
    })
    received.status = response.status
    if (response.headers.get('Content-Type')?.startsWith('text/event-stream')) {
      await readStream(response, received, leaving)
    } else {
      takeJson(received, (await response.json()) as Body)
    }
  } catch {
    // The connection broke off: what was received until then counts.
  }
  return received
}

/** Makes a call to a provider that never answers, and hangs up when the call has reached it. */
export async function abandonCall(
  url: string,
  key: string,
  call: PlannedCall,
  provider: CountingProvider,
): Promise<Received> {
  const leaving = new AbortController()
  const answered = fetch(`${url}/chat/completions`, {
    method: 'POST',
    headers: { Authorization: `Bearer ${key}` },
    body: JSON.stringify({ model: 'svc/silent', messages: [{ role: 'user', content: contentOf(call) }] }),
    signal: leaving.signal,
  }).then(
    () => true,
    () => true,
  )
  while (!provider.served.has(call.number)) {
    if (await Promise.race([answered, turn().then(() => false)])) break
  }
  leaving.abort()
  await answered
  return { call, status: null, id: null, pieces: 0, whole: false, code: null, hungUp: true }
}

function turn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve))
}

function contentOf({ model, number, tokens }: PlannedCall): string {
  if (model !== 'sandbox') return askFor(number, tokens)
  return longEnough(
    number,
    `[[sandbox tokens=${tokens} prompt_tokens=${number} first_token_ms=0 tokens_per_second=2000]]`,
  )
}

interface Body {
  readonly id?: string
  readonly object?: string
  readonly choices?: readonly {
    readonly delta?: { readonly content?: string }
    readonly finish_reason: string | null
  }[]
  readonly error?: { readonly code: string }
}

function takeJson(received: Received, body: Body): void {
  received.id = body.id ?? null
  received.code = body.error?.code ?? null
  received.whole = body.object === 'chat.completion' && body.choices?.[0]?.finish_reason === 'stop'
}

async function readStream(response: Response, received: Received, leaving: AbortController): Promise<void> {
  const decoder = new TextDecoder()
  let text = ''
  let finished = false
  for await (const bytes of response.body ?? []) {
    text += decoder.decode(bytes, { stream: true })
    for (let end = text.indexOf('\n\n'); end >= 0; end = text.indexOf('\n\n')) {
      const event = text.slice(0, end)
      text = text.slice(end + 2)
      if (event === 'data: [DONE]') {
        received.whole = finished
        return
      }
      if (!event.startsWith('data: ')) continue
      finished = takeChunk(received, JSON.parse(event.slice(6)) as Body) || finished
      if (received.pieces === received.call.hangsUpAfter) {
        received.hungUp = true
        leaving.abort()
        return
      }
    }
  }
}

function takeChunk(received: Received, chunk: Body): boolean {
  received.id ??= chunk.id ?? null
  received.code ??= chunk.error?.code ?? null
  if (chunk.choices?.[0]?.delta?.content) received.pieces += 1
  return chunk.choices?.[0]?.finish_reason === 'stop'
}
