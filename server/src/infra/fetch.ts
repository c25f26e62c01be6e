import type { Clock } from '../lib/time.ts'
import { HttpBodyTooLarge } from './httpClient.ts'

/** HTTP for packages that bring their own client, such as Stripe's. No call to a model goes through it. */
export type Fetch = (url: string, init: RequestInit) => Promise<Response>

/** Follows no redirect: a key goes to the server that was named, and nowhere else. */
export const systemFetch: Fetch = (url, init) => fetch(url, { ...init, redirect: 'manual' })

/** The most that an exchange of {@link boundedFetch} may take. */
export interface ExchangeBounds {
  /** From the request to the last byte of the answer. */
  readonly wholeMs: number
  /** Of the answer's body, decompressed. */
  readonly maxBytes: number
}

/** Returns a function that sends and has the whole answer when it resolves. Throws where the answer is late or too large. */
export function boundedFetch(send: Fetch, clock: Pick<Clock, 'after'>, { wholeMs, maxBytes }: ExchangeBounds): Fetch {
  return async (url, init) => {
    const controller = new AbortController()
    const cancel = clock.after(wholeMs, () => controller.abort(new Error(`no whole answer within ${wholeMs} ms`)))
    try {
      const response = await send(url, { ...init, signal: controller.signal })
      const bytes = await readAtMost(response, maxBytes)
      return new Response(bytes.length === 0 ? null : bytes, { status: response.status, headers: response.headers })
    } finally {
      cancel()
    }
  }
}

async function readAtMost(response: Response, maxBytes: number): Promise<Uint8Array<ArrayBuffer>> {
  const chunks: Uint8Array[] = []
  let length = 0
  // Leaving the loop cancels the rest.
  for await (const chunk of response.body ?? []) {
    length += chunk.length
    if (length > maxBytes) throw new HttpBodyTooLarge(maxBytes)
    chunks.push(chunk)
  }
  return new Uint8Array(Buffer.concat(chunks))
}
