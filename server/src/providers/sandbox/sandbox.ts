import type { Clock } from '../../lib/time.ts'
import type { Provider } from '../dialect/spec.ts'
import { SandboxAnswer } from './answer.ts'
import type { ClipWork } from './clipWork.ts'
import { sandboxDraw } from './draw.ts'
import { sandboxEmbed } from './embed.ts'
import { planOf } from './plan.ts'
import type { SandboxSettings } from './settings.ts'
import { sandboxVideo } from './video.ts'

export interface SandboxProviderOptions {
  /** Its name in the settings file. */
  readonly name: string
  readonly settings: SandboxSettings
  readonly clock: Clock
  readonly clips: ClipWork
}

/** Simulated models in this process: nothing to install, nothing to reach, the same answer for the same question. */
export function sandboxProvider({ name, settings, clock, clips }: SandboxProviderOptions): Provider {
  return {
    name,
    chat(call, signal, _connectMs, onWritten) {
      try {
        const answer = new SandboxAnswer(planOf(call, settings), clock, signal)
        onWritten?.()
        return Promise.resolve(answer)
      } catch (error) {
        return Promise.reject(error)
      }
    },
    draw: (call, signal, _connectMs, _memory, onWritten) => sandboxDraw(call, settings, clock, signal, onWritten),
    video: sandboxVideo(settings, clock, clips),
    embed: (call, signal, _connectMs, _memory, onWritten) => sandboxEmbed(call, settings, clock, signal, onWritten),
  }
}
