/** An answer of more than 64 KiB that leaves after its handler has returned. */

import { type CallSignal, OwnSignal } from '../lib/callSignal.ts'
import type { RouteRequest } from './pipeline.ts'
import type { KeyOrSession } from './principal.ts'
import type { EndAnswer } from './stalledClient.ts'

export interface Leaving {
  /** Aborted when the key of the request may not be used any more (K6): the answer breaks off. A session's end aborts nothing. */
  readonly cutOff: CallSignal
  /** To be called once: all of the answer has left, its client has, or it broke off. */
  readonly onEnd: EndAnswer
}

/** Watches the key of a request while its answer leaves. `onEnd` is called at the end, and ends what `holdOpen` began. */
export function startLeaving(
  { openCalls, principal }: Pick<RouteRequest<KeyOrSession>, 'openCalls' | 'principal'>,
  onEnd: EndAnswer,
): Leaving {
  const cutOff = new OwnSignal()
  if (principal.kind === 'session') return { cutOff, onEnd }
  const forget = openCalls.add(principal, () => cutOff.abort(new Error('the key has ended')))
  return {
    cutOff,
    onEnd: (client) => {
      forget()
      onEnd(client)
    },
  }
}
