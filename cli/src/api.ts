import type { Secret } from '../../server/src/lib/secret.ts'
import { MINUTE_MS, SECOND_MS } from '../../server/src/lib/time.ts'
import type { CommandLine } from './command.ts'
import { CliFailure, LoginNeeded } from './failure.ts'
import { KEY_VARIABLE, keyFor, loginHint, serverUrlOf } from './logins.ts'
import { inOwnWords } from './serverWords.ts'
import type { System } from './system.ts'
import { describeUnreached } from './unreached.ts'

/** Calls the server with the customer's key. */

/** A server that says nothing for so long is not there. */
const DEADLINE_MS = 30 * SECOND_MS
/** Of a paid call, which a model works on; it may start cold. */
export const PAID_DEADLINE_MS = 10 * MINUTE_MS
/** The largest answer that is read: 2048 vectors in JSON, or four large images. */
const ANSWER_BYTES_MAX = 256 * 1024 * 1024

export interface ApiCall {
  readonly method: 'GET' | 'POST' | 'PUT' | 'DELETE'
  /** With its base, such as `/v1/webhook-endpoints`. */
  readonly path: string
  readonly body?: object
  readonly headers?: Readonly<Record<string, string>>
  readonly deadlineMs?: number
}

export interface ApiAnswer {
  /** Parsed; null where there is none. */
  readonly body: unknown
  readonly headers: Headers
}

/** The parsed answer, null where it has no body. Throws {@link CliFailure} with the server's own words when it refuses. `left` ends it too. */
export async function callApi(args: CommandLine, system: System, call: ApiCall, left?: AbortSignal): Promise<unknown> {
  return (await askApi(args, system, call, left)).body
}

/** The same with the answer's headers. */
export async function askApi(args: CommandLine, system: System, call: ApiCall, left?: AbortSignal): Promise<ApiAnswer> {
  const url = await askedServer(args, system)
  return await readWhole(system, url, await keyFor(system, url), call, left)
}

/** The parsed answer to a call with a key of the caller's choice, or none. */
export async function askWithKey(
  system: System,
  url: string,
  key: Secret | null,
  call: ApiCall,
  left?: AbortSignal,
): Promise<unknown> {
  return (await readWhole(system, url, key, call, left)).body
}

async function readWhole(
  system: System,
  url: string,
  key: Secret | null,
  call: ApiCall,
  left: AbortSignal | undefined,
): Promise<ApiAnswer> {
  const over = new AbortController()
  const deadlineMs = call.deadlineMs ?? DEADLINE_MS
  const cancel = system.clock.after(deadlineMs, () => over.abort(new AnswerLate(url, deadlineMs)))
  const signal = left === undefined ? over.signal : AbortSignal.any([left, over.signal])
  try {
    const response = await openWithKey(system, url, key, call, signal)
    const { headers } = response
    return { body: response.status === 204 ? null : await readJson(response, url, signal), headers }
  } finally {
    cancel()
  }
}

/** The same with the answer still to be read. */
export async function openStream(
  args: CommandLine,
  system: System,
  call: ApiCall,
  signal: AbortSignal,
): Promise<Response> {
  const url = await askedServer(args, system)
  return await openWithKey(system, url, await keyFor(system, url), call, signal)
}

async function openWithKey(
  system: System,
  url: string,
  key: Secret | null,
  { method, path, body, headers }: ApiCall,
  signal: AbortSignal,
): Promise<Response> {
  const response = await system
    .fetch(`${url}${path}`, {
      method,
      headers: {
        ...(key === null ? {} : { Authorization: `Bearer ${key.reveal()}` }),
        ...(body === undefined ? {} : { 'Content-Type': 'application/json' }),
        ...headers,
      },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      signal,
    })
    .catch((error: unknown) => {
      throw lateness(signal) ?? unreachedBy(system, url, error)
    })
  if (response.ok) return response
  const { code, words } = await refusalOf(response, url, signal)
  const said = inOwnWords(words, path, response.headers.get('Retry-After'))
  if (response.status === 401 && key !== null) throw new LoginNeeded(`${said} ${await adviceFor(system, url, key)}`)
  throw new ServerRefusal(response.status, code, said)
}

/** Says what to do about a key that the server does not take. */
async function adviceFor(system: System, url: string, key: Secret): Promise<string> {
  const hint = `"${await loginHint(system, url)}"`
  const isFromVariable = (system.environment[KEY_VARIABLE] ?? '').trim() === key.reveal()
  if (!isFromVariable) return `${hint} keeps a key.`
  return `The key is from ${KEY_VARIABLE}: set another there, or unset it and log in with ${hint}.`
}

export async function askedServer(args: CommandLine, system: System): Promise<string> {
  return await serverUrlOf(system, args.text('server'))
}

async function readJson(response: Response, url: string, signal: AbortSignal): Promise<unknown> {
  const text = await readText(response, url, signal)
  try {
    return JSON.parse(text)
  } catch {
    throw new ServerRefusal(response.status, 'not_understood', notOurs(url, response.status))
  }
}

async function readText(response: Response, url: string, signal: AbortSignal): Promise<string> {
  const reader = response.body?.getReader()
  const decoder = new TextDecoder()
  let text = ''
  let bytes = 0
  for (;;) {
    const read = await reader?.read().catch(() => {
      throw lateness(signal) ?? new AnswerBrokeOff(url)
    })
    if (read === undefined || read.done) return text + decoder.decode()
    bytes += read.value.byteLength
    if (bytes > ANSWER_BYTES_MAX) {
      await reader?.cancel().catch(() => {})
      throw new CliFailure(`${url} answered with more than ${ANSWER_BYTES_MAX / 1024 / 1024} MiB: ask for less at once`)
    }
    text += decoder.decode(read.value, { stream: true })
  }
}

/** Nothing, or no whole answer, was heard from the server. */
export class ServerUnreached extends CliFailure {
  /** True: the server has nothing of the request. */
  readonly isUnsent: boolean
  constructor(problem: string, code = 'unreachable', isUnsent = false) {
    super(problem, { code })
    this.isUnsent = isUnsent
  }
}

function unreachedBy({ environment }: System, url: string, error: unknown): ServerUnreached {
  const { problem, isUnsent } = describeUnreached(url, error, environment)
  return new ServerUnreached(problem, 'unreachable', isUnsent)
}

/** The time was over that an answer may take; it is the reason of the signal that ends the call. */
export class AnswerLate extends ServerUnreached {
  constructor(url: string, deadlineMs: number) {
    super(
      `${url} gave no answer within ${deadlineMs / SECOND_MS} s: check that it works, or try again later`,
      'timeout',
    )
  }
}

function lateness({ reason }: AbortSignal): AnswerLate | null {
  return reason instanceof AnswerLate ? reason : null
}

/** The server began to answer, and stopped. `more` is said behind it. */
export class AnswerBrokeOff extends ServerUnreached {
  constructor(url: string, more?: string) {
    const words = `the answer broke off: ${url} stopped in the middle of it, try again`
    super(more === undefined ? words : `${words}; ${more}`, 'broke_off')
  }
}

/** The server has answered, and refuses. */
export class ServerRefusal extends CliFailure {
  readonly status: number
  constructor(status: number, code: string, words: string) {
    // The value of an option that only the server can judge is a mistake on the command line all the same.
    super(words, (status === 422 || status === 400) && /^--[a-z]/.test(words) ? { code, exitCode: 2 } : { code })
    this.status = status
  }
}

/** Returns whether it is worth trying again: the server was not heard, or says that it can't answer now. */
export function isTransient(error: unknown): error is CliFailure {
  if (error instanceof ServerRefusal) return error.status >= 500 || error.status === 429
  return error instanceof ServerUnreached
}

async function refusalOf(
  response: Response,
  url: string,
  signal: AbortSignal,
): Promise<{ readonly code: string; readonly words: string }> {
  const body: unknown = await readJson(response, url, signal).catch(() => null)
  if (typeof body === 'object' && body !== null) {
    const { detail, code, error } = body as Record<string, unknown>
    if (typeof detail === 'string') return { code: String(code), words: detail }
    // As OAuth writes it.
    if (typeof error === 'string') return { code: error, words: `the server refuses: ${error}` }
    // The other envelope.
    const { message, code: inner } = (error ?? {}) as Record<string, unknown>
    if (typeof message === 'string') return { code: String(inner), words: message }
  }
  return { code: 'not_understood', words: notOurs(url, response.status) }
}

function notOurs(url: string, status: number): string {
  return `${url} answered with ${status}, but not like a Tollgate server: check the address`
}
