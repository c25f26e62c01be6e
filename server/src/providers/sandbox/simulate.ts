import type { Clock } from '../../lib/time.ts'
import { ProviderFailure } from '../dialect/spec.ts'
import { type Directive, takeDirective, VIDEO_PARTS, wrong } from './directive.ts'
import type { SandboxSettings } from './settings.ts'

/** The parts of a directive that mean something where no tokens are generated. */
const PARTS_WITHOUT_TOKENS: ReadonlySet<string> = new Set<keyof Directive>([
  'prompt_tokens',
  'no_usage',
  'first_token_ms',
  'fail',
])

/**
 * Does the work before simulated embeddings and images: reads the directive in `text`, waits, and fails where that
 * asks for it. `onBegun` is told when the wait begins. Resolves with the text without its directive. Throws
 * ProviderFailure, or the signal's reason.
 */
export async function simulate(
  text: string,
  settings: SandboxSettings,
  clock: Clock,
  signal: AbortSignal,
  onBegun?: () => void,
): Promise<{ readonly directive: Directive; readonly rest: string }> {
  const { directive, rest } = takeDirective(text)
  const other = Object.keys(directive).find((name) => !PARTS_WITHOUT_TOKENS.has(name))
  if (other !== undefined) throw wrong(`${other} is for ${VIDEO_PARTS.includes(other) ? 'videos' : 'chat'}`)
  signal.throwIfAborted()
  onBegun?.()
  await wait(directive.first_token_ms ?? settings.firstTokenMs, clock, signal)
  const kind = directive.fail ?? settings.failure?.kind ?? null
  if (kind !== null) {
    throw new ProviderFailure(kind, 'simulated', { mayFailOver: kind === 'unavailable' || kind === 'timeout' })
  }
  return { directive, rest }
}

function wait(delayMs: number, clock: Clock, signal: AbortSignal): Promise<void> {
  if (delayMs === 0) return Promise.resolve()
  return new Promise((resolve, reject) => {
    const onAbort = () => {
      cancelTimer()
      reject(signal.reason)
    }
    const cancelTimer = clock.after(delayMs, () => {
      signal.removeEventListener('abort', onAbort)
      resolve()
    })
    signal.addEventListener('abort', onAbort, { once: true })
  })
}
