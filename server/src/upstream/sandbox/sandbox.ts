import type { Clock } from '../../kernel/time.ts'
import type { Upstream } from '../spec.ts'
import { SandboxAnswer } from './answer.ts'
import { sandboxDraw } from './draw.ts'
import { sandboxEmbed } from './embed.ts'
import type { FilmWork } from './filmWork.ts'
import { planOf } from './plan.ts'
import type { SandboxSettings } from './settings.ts'
import { sandboxVideo } from './video.ts'

export interface SandboxUpstreamOptions {
  /** Its name in the settings file. */
  readonly name: string
  readonly settings: SandboxSettings
  readonly clock: Clock
  readonly films: FilmWork
}

/** Simulated models in this process: nothing to install, nothing to reach, the same answer for the same question. */
export function sandboxUpstream({ name, settings, clock, films }: SandboxUpstreamOptions): Upstream {
  return {
    name,
    chat(call, signal) {
      try {
        return Promise.resolve(new SandboxAnswer(planOf(call, settings), clock, signal))
      } catch (error) {
        return Promise.reject(error)
      }
    },
    draw: (call, signal) => sandboxDraw(call, settings, clock, signal),
    video: sandboxVideo(settings, clock, films),
    embed: (call, signal) => sandboxEmbed(call, settings, clock, signal),
  }
}
