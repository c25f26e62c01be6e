import type { Http } from '../../infra/httpClient.ts'
import type { Clock } from '../../lib/time.ts'

/** How a server is reached, whatever its dialect. */
export interface ModelServer {
  /** Paths of the dialect are appended to it, so it ends without a slash. */
  readonly baseUrl: string
  /** In the header that the dialect has for it; null: none is sent. */
  readonly apiKey: string | null
  /** The operator's own, sent with every call. */
  readonly extraHeaders: Readonly<Record<string, string>>
  readonly http: Http
  readonly clock: Clock
}

/** A server that has a name in the settings file. */
export interface NamedServer extends ModelServer {
  readonly name: string
}
