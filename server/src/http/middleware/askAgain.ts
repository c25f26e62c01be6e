/** The step that asks for the caller again, after a body that took its time. */

import type { Middleware, PipelineDependencies, Steps } from '../pipeline.ts'
import { refuseEnded } from '../refuseEnded.ts'

/** A body that is here sooner was sent by a caller that was good a moment ago. */
const ASKED_AGAIN_AFTER_MS = 250

/** Refuses a request whose caller has ended since it began, by the steps that let it in (K6). */
export function askAgain({ clock }: Pick<PipelineDependencies, 'clock'>, again: Steps['again']): Middleware {
  return (pending) =>
    clock.monotonicMs() - pending.startedAtMs < ASKED_AGAIN_AFTER_MS ? null : refuseEnded(again, pending)
}
