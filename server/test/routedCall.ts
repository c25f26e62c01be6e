import { DEFAULT_ROUTING, type TierRouting } from '../src/catalog/model.ts'
import type { CallSignal } from '../src/lib/callSignal.ts'
import type { Log } from '../src/lib/log.ts'
import { type ChatCall, type ChatEvent, type Provider, ProviderFailure } from '../src/providers/dialect/spec.ts'
import { Health } from '../src/routing/health.ts'
import { openChat } from '../src/routing/openChat.ts'
import { TurnedClock } from './clock.ts'

/**
 * The next step of a scripted provider: it gives a text, sends its headers, fails, goes silent for good, or waits
 * (ms).
 */
export type Step = string | Error | 'headers' | 'silence' | number

export interface ScriptedProvider extends Provider {
  readonly calls: ChatCall[]
  /** Returns whether the signal of its last call is aborted. */
  cancelled(): boolean
  /** Returns the time that its last call gave a connection. */
  connectMs(): number
}

/** One client's call through `openChat`, on a clock that a test turns, with all that is logged and counted of it. */
export class RoutedCall {
  readonly clock = new TurnedClock()
  readonly client = new AbortController()
  readonly health = new Health(this.clock, 5)
  routing: TierRouting = DEFAULT_ROUTING.serverless
  random = () => 0.5
  /** `level provider kind` of every line. */
  readonly logged: string[] = []
  /** `provider outcome milliseconds` of every attempt. */
  readonly attempts: string[] = []

  open(...providers: Provider[]) {
    const targets = providers.map((provider) => ({ provider, model: `${provider.name}-model` }))
    return openChat(targets, CALL, {
      signal: this.client.signal,
      deadlines: DEADLINES,
      routing: this.routing,
      health: this.health,
      random: () => this.random(),
      clock: this.clock,
      log: this.log(),
      metrics: {
        hedged: (provider) => this.attempts.push(`${provider} hedges`),
        attempt: (provider, outcome, elapsedMs) => this.attempts.push(`${provider} ${outcome} ${elapsedMs}`),
      },
    })
  }

  /** The text of the answer, with what it ended in when that was a failure. */
  async text(...providers: Provider[]): Promise<string> {
    let text = ''
    try {
      for await (const event of (await this.open(...providers)).events) text += event.kind === 'text' ? event.text : ''
    } catch (error) {
      return `${text}${error instanceof ProviderFailure ? `${error.kind}!` : error}`
    }
    return text
  }

  /**
   * A provider that plays its steps, those up to `headers` before its `chat` resolves. It pays no heed to its signal:
   * routing must not depend on that.
   */
  provider(name: string, script: readonly Step[]): ScriptedProvider {
    const steps = [...script]
    const calls: ChatCall[] = []
    let lastSignal: CallSignal | null = null
    let lastConnectMs = 0
    const take = () => this.play(steps)
    return {
      name,
      calls,
      cancelled: () => lastSignal?.aborted === true,
      connectMs: () => lastConnectMs,
      async chat(call, signal, connectMs) {
        calls.push(call)
        lastSignal = signal
        lastConnectMs = connectMs
        if (steps.includes('headers')) while ((await take()) !== 'headers');
        return texts(take)
      },
    }
  }

  /** Plays steps up to the next text, or null when there are no more. */
  private async play(steps: Step[]): Promise<string | null> {
    for (let step = steps.shift(); step !== undefined; step = steps.shift()) {
      const waitMs = step
      if (step === 'silence') await new Promise(() => {})
      if (typeof waitMs === 'number') await new Promise<void>((resolve) => this.clock.after(waitMs, resolve))
      if (step instanceof Error) throw step
      if (typeof step === 'string') return step
    }
    return null
  }

  private log(): Log {
    const at = (level: string) => (fields: object) => {
      const { provider, kind } = fields as { provider: string; kind: string }
      this.logged.push(`${level} ${provider} ${kind}`)
    }
    return { debug: at('debug'), info: at('info'), warn: at('warn'), error: at('error') }
  }
}

async function* texts(take: () => Promise<string | null>): AsyncGenerator<ChatEvent, void> {
  for (let text = await take(); text !== null; text = await take()) yield { kind: 'text', text }
}

const DEADLINES = { connectMs: 1_000, firstByteMs: 10_000, silenceMs: 5_000, wholeMs: 60_000 }
export const CALL = {
  messages: [{ role: 'user' as const, content: 'Hi' }],
  maxTokens: null,
  outputTokens: 100,
  temperature: null,
}
