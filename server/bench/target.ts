/** Something that answers chat completions and is measured. */
import type { Processes } from './processes.ts'

/** What every target is started with. */
export interface Surroundings {
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
  /** How many calls its books say were charged so far; absent where it keeps no books. */
  chargedCalls?(): Promise<number>
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
