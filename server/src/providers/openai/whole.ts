import type { Http } from '../../infra/httpClient.ts'
import type { Clock } from '../../lib/time.ts'
import { type Provider, ProviderFailure } from '../dialect/spec.ts'
import { postForWhole, type WholePost, wholeHeaders } from '../dialect/whole.ts'
import type { VectorWork } from '../vectors/work.ts'
import { drawnFromWire, drawToWire, IMAGES_MOST_BYTES } from './draw.ts'
import { EMBEDDINGS_MOST_BYTES, embeddedFromWire, embedToWire } from './embed.ts'
import { failureOfStatus } from './failure.ts'

export interface OpenaiWholeOptions {
  /** Where `/embeddings` is appended, such as `http://127.0.0.1:8000/v1`; null while there is no server. */
  readonly address: () => string | null
  /** The credential of the `Authorization` header, asked for at every call; null for none. */
  readonly bearer: () => string | null
  /** Sent with every call. */
  readonly extraHeaders?: Readonly<Record<string, string>>
  readonly http: Http
  readonly clock: Clock
  readonly vectors: VectorWork
}

/**
 * Answers in one piece from servers of OpenAI's form: embeddings and images. The settings say whether a server has
 * them.
 */
export function openaiWhole(options: OpenaiWholeOptions): Required<Pick<Provider, 'embed' | 'draw'>> {
  const { address, http, clock, vectors } = options
  const post = (path: string, body: string, more: Parts): Promise<Uint8Array<ArrayBuffer>[]> => {
    const baseUrl = address()
    if (baseUrl === null)
      throw new ProviderFailure('unavailable', 'the server is not running', { mayFailOver: true, mayAskAgain: true })
    const headers = wholeHeaders(options.extraHeaders ?? {}, options.bearer())
    return postForWhole(http, clock, { url: `${baseUrl}${path}`, headers, body, failureOfStatus, ...more })
  }
  return {
    async embed(call, signal, connectMs, memory, onWritten) {
      const more = { signal, connectMs, memory, onWritten, maxBytes: EMBEDDINGS_MOST_BYTES, isRepeatable: true }
      return embeddedFromWire(await post('/embeddings', embedToWire(call), more), call, vectors)
    },
    async draw(call, signal, connectMs, memory, onWritten) {
      const more = { signal, connectMs, memory, onWritten, maxBytes: IMAGES_MOST_BYTES, isRepeatable: false }
      return drawnFromWire(await post('/images/generations', drawToWire(call), more), vectors)
    },
  }
}

type Parts = Pick<WholePost, 'signal' | 'connectMs' | 'memory' | 'onWritten' | 'maxBytes' | 'isRepeatable'>
