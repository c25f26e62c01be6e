import { SECOND_MS } from '../kernel/time.ts'
import { CommandFailure, type Invocation, type OptionSpec } from './command.ts'
import type { Surroundings } from './surroundings.ts'

/** Commands that are carried out by a running server, with the customer's own key. */

/** Which server. The key is never an option: other users of the machine see those. */
export const SERVER_OPTION: OptionSpec = {
  name: 'server',
  value: 'URL',
  summary: 'the server, also TOLLGATE_URL; the API key is read from TOLLGATE_API_KEY',
  preset: 'http://127.0.0.1:8080',
}

/** A server that says nothing for so long is not there. */
const DEADLINE_MS = 30 * SECOND_MS

export interface ApiCall {
  readonly method: 'GET' | 'POST' | 'DELETE'
  /** With its base, such as `/v1/webhook-endpoints`. */
  readonly path: string
  readonly body?: object
  readonly headers?: Readonly<Record<string, string>>
}

/**
 * Calls the server; the parsed answer, null where it has no body. Throws {@link CommandFailure} with the server's own words
 * when it refuses. `left`, where given, ends it too.
 */
export async function callApi(
  invocation: Invocation,
  surroundings: Surroundings,
  call: ApiCall,
  left?: AbortSignal,
): Promise<unknown> {
  const over = new AbortController()
  const cancel = surroundings.clock.after(DEADLINE_MS, () => over.abort())
  const signal = left === undefined ? over.signal : AbortSignal.any([left, over.signal])
  try {
    const response = await openApi(invocation, surroundings, call, signal)
    if (response.status === 204) return null
    return await readJson(response, surroundings.server(invocation.text('server')).url)
  } finally {
    cancel()
  }
}

/** The same with the answer still to be read. */
export async function openApi(
  invocation: Invocation,
  surroundings: Surroundings,
  { method, path, body, headers }: ApiCall,
  signal: AbortSignal,
): Promise<Response> {
  const { url, key } = surroundings.server(invocation.text('server'))
  const response = await surroundings
    .fetch(`${url}${path}`, {
      method,
      headers: {
        Authorization: `Bearer ${key.reveal()}`,
        ...(body === undefined ? {} : { 'Content-Type': 'application/json' }),
        ...headers,
      },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      signal,
    })
    .catch(() => {
      throw new ServerUnreached(url)
    })
  if (response.ok) return response
  throw new ServerRefusal(response.status, await wordsOf(response, url))
}

async function readJson(response: Response, url: string): Promise<unknown> {
  const text = await response.text().catch(() => {
    throw new ServerUnreached(url)
  })
  try {
    return JSON.parse(text)
  } catch {
    throw new ServerRefusal(response.status, notOurs(url, response.status))
  }
}

/** Nothing, or no whole answer, was heard from the server. */
export class ServerUnreached extends CommandFailure {
  constructor(url: string) {
    super(`${url} can't be reached: check that it runs, or name another by --server or TOLLGATE_URL`)
  }
}

/** The server has answered, and refuses. */
export class ServerRefusal extends CommandFailure {
  readonly status: number
  constructor(status: number, words: string) {
    super(words)
    this.status = status
  }
}

async function wordsOf(response: Response, url: string): Promise<string> {
  const body: unknown = await response.json().catch(() => null)
  if (typeof body === 'object' && body !== null) {
    if ('detail' in body) return String(body.detail)
    // The other envelope.
    const { error } = body as { readonly error?: { readonly message?: unknown } }
    if (typeof error?.message === 'string') return error.message
  }
  return notOurs(url, response.status)
}

function notOurs(url: string, status: number): string {
  return `${url} answered with ${status}, and not as a Tollgate server does: check the address`
}
