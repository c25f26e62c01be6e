/** Something that answers chat completions and is measured. */
import type { Processes } from './processes.ts'

/** The context that every target is started in. */
export interface BenchContext {
  readonly processes: Processes
  /** An existing folder of its own for files that the run makes. */
  readonly folder: string
  readonly mockPort: number
  /** The mock models that will be asked for, `mock-<chunks>x<ms>`. */
  readonly models: readonly string[]
  /** Spread the load over this many API keys, where the target has keys. */
  readonly keyCount: number
}

export interface Target {
  readonly name: string
  /** Of a program that is not pinned by this checkout. */
  readonly version?: string
  readonly port: number
  readonly path: string
  readonly headers: Readonly<Record<string, string>>
  readonly authorizations: readonly string[]
  /** Its name for one of the mock's models. */
  modelName(mockModel: string): string
  /** The processes of the gateway itself. */
  gatewayPids(): number[]
  /** The processes of its database; empty where it has none. */
  databasePids(): number[]
  /** Returns how many calls its books say were charged so far; absent where it keeps no books. */
  chargedCalls?(): Promise<number>
  /** Returns how many calls its log has, where it keeps one beside the books. */
  loggedCalls?(): Promise<number>
  /** How long after an answer its charge may come, where the target charges later by design; absent: before the answer. */
  readonly chargesWithinMs?: number
  /** Absent where a crash can't be staged. */
  readonly killable?: Killable
}

/** A gateway that can be killed without its database, and started again with the same books on the same port. */
export interface Killable {
  /** SIGKILL; resolves once the gateway's processes are gone. */
  kill(): Promise<void>
  /** Resolves once the gateway answers; makes no call that is charged. */
  restart(): Promise<void>
}

/** However slowly books are brought up to date, they are read after this. */
const BOOKS_LIMIT_MS = 300_000
const BOOKS_POLL_MS = 250

/** Returns what the target's books say once they have not changed for `quietMs`, or after five minutes. */
export async function settledCharges(target: Target, quietMs: number): Promise<number> {
  if (target.chargedCalls === undefined) throw new Error(`${target.name} keeps no books`)
  const limitAt = performance.now() + BOOKS_LIMIT_MS
  let charged = await target.chargedCalls()
  let changedAt = performance.now()
  while (performance.now() < Math.min(changedAt + quietMs, limitAt)) {
    await Bun.sleep(BOOKS_POLL_MS)
    const now = await target.chargedCalls()
    if (now !== charged) changedAt = performance.now()
    charged = now
  }
  return charged
}

/** Returns a target without keys of its own, a database and books, once it serves. */
export async function plainTarget(name: string, port: number, gatewayPids: () => number[]): Promise<Target> {
  const target: Target = {
    name,
    port,
    path: '/v1/chat/completions',
    headers: {},
    authorizations: [],
    modelName: (mockModel) => mockModel,
    gatewayPids,
    databasePids: () => [],
  }
  await waitUntilServing(target, 'mock-1x0', 10_000)
  return target
}

/** Waits until `isUp` returns true; a throw counts as not yet. */
export async function waitUntilUp(what: string, limitMs: number, isUp: () => Promise<boolean>): Promise<void> {
  const limitAt = performance.now() + limitMs
  while (performance.now() < limitAt) {
    if (await isUp().catch(() => false)) return
    await Bun.sleep(50)
  }
  throw new Error(`${what} did not start within ${limitMs / 1000} s`)
}

/** Waits until the target answers a chat call, and throws what it says instead when it doesn't in time. */
export async function waitUntilServing(target: Target, mockModel: string, limitMs: number): Promise<void> {
  const limitAt = performance.now() + limitMs
  for (;;) {
    const problem = await tryCall(target, mockModel)
    if (problem === null) return
    if (performance.now() > limitAt) throw new Error(`${target.name} doesn't serve: ${problem}`)
    await Bun.sleep(100)
  }
}

async function tryCall(target: Target, mockModel: string): Promise<string | null> {
  const headers = { ...target.headers, 'Content-Type': 'application/json', ...authorizationOf(target) }
  const body = JSON.stringify(chatBody(target, mockModel, false))
  try {
    const url = `http://127.0.0.1:${target.port}${target.path}`
    const answer = await fetch(url, { method: 'POST', headers, body, signal: AbortSignal.timeout(2_000) })
    const text = await answer.text()
    return answer.status === 200 ? null : `status ${answer.status}: ${text.slice(0, 500)}`
  } catch (error) {
    return String(error)
  }
}

function authorizationOf(target: Target): Record<string, string> {
  const authorization = target.authorizations[0]
  return authorization === undefined ? {} : { Authorization: authorization }
}

/** The body of every call of the bench. */
export function chatBody(target: Target, mockModel: string, stream: boolean): object {
  const model = target.modelName(mockModel)
  const messages = [
    { role: 'system', content: 'You answer in as few words as you can.' },
    { role: 'user', content: 'Which four words would you take to a desert island?' },
  ]
  if (!stream) return { model, messages, max_tokens: 256 }
  return { model, messages, max_tokens: 256, stream: true, stream_options: { include_usage: true } }
}
