import type { MaxTokensField } from '../../catalog/provider.ts'
import type { Http } from '../../infra/httpClient.ts'
import type { Clock } from '../../lib/time.ts'
import { type Provider, ProviderFailure } from '../dialect/spec.ts'
import { type ChatWire, chatHeaders, postChat } from '../dialect/streamed.ts'
import { readChunk } from './events.ts'
import { failureOfStatus } from './failure.ts'
import { toWire } from './request.ts'

/** A server that does not stream answers with a completion: the same content, in `message` instead of `delta`. */
const WIRE: ChatWire = { reader: () => readChunk, takesJson: true, failureOfStatus }

export interface OpenaiProviderOptions {
  /** Its name in the settings file. */
  readonly name: string
  /** Where `/chat/completions` is appended, such as `http://127.0.0.1:8000/v1`; null while there is no server. */
  readonly address: () => string | null
  /** The credential of the `Authorization` header, asked for at every call; null for none. */
  readonly bearer: () => string | null | Promise<string | null>
  /** Sent with every call, such as `OpenAI-Organization`. */
  readonly extraHeaders?: Readonly<Record<string, string>>
  /** Whether chat calls ask for the usage so far in every chunk. */
  readonly continuousUsage?: boolean
  /** The field in which the limit of an answer is sent; left out: `max_tokens`. */
  readonly maxTokensField?: MaxTokensField
  readonly http: Http
  readonly clock: Clock
}

/** A server that speaks OpenAI's chat completions: vLLM, SGLang, Ollama, llama.cpp, LM Studio, OpenAI, our GGUF child. */
export function openaiProvider(options: OpenaiProviderOptions): Provider {
  const { name, address, http, clock, continuousUsage, maxTokensField } = options
  const fixedHeaders = chatHeaders(options.extraHeaders ?? {})

  /** One object for as long as the credential stays the same, so that it is written out once. */
  const headersWith = (bearer: string | null) => {
    if (bearer === lastBearer) return lastHeaders
    lastBearer = bearer
    lastHeaders = bearer === null ? fixedHeaders : { ...fixedHeaders, authorization: `Bearer ${bearer}` }
    return lastHeaders
  }
  let lastBearer: string | null = null
  let lastHeaders: Readonly<Record<string, string>> = fixedHeaders

  return {
    name,
    async chat(call, signal, connectMs, onWritten) {
      const baseUrl = address()
      if (baseUrl === null)
        throw new ProviderFailure('unavailable', 'the server is not running', { mayFailOver: true, mayAskAgain: true })
      const credential = options.bearer()
      const bearer = credential instanceof Promise ? await credential : credential
      const url = `${baseUrl}/chat/completions`
      const headers = headersWith(bearer)
      return postChat(
        http,
        clock,
        { url, headers, body: toWire(call, continuousUsage, maxTokensField), signal, connectMs, onWritten },
        WIRE,
      )
    },
  }
}
