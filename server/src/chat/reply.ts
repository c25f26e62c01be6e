/** What a chat call is answered with, before it is written out. */

import type { Refusal } from '../kernel/errors.ts'
import type { FinishReason, TokenUsage } from '../upstream/spec.ts'

/** What every answer carries. */
export interface Heading {
  readonly id: string
  readonly createdSeconds: number
  /** The canonical id, whatever the client wrote. */
  readonly model: string
}

/** Usage as shown: `cachedTokens` is null when no cached rate was applied (C4). */
export interface ShownUsage extends TokenUsage {
  readonly cachedTokens: number | null
}

/** The last part of a whole answer. */
export interface EndPart extends Settled {
  readonly kind: 'end'
  readonly finishReason: FinishReason
}

export type StreamedPart =
  | { readonly kind: 'text'; readonly text: string }
  | EndPart
  /** The cost is null when nothing was charged. */
  | { readonly kind: 'error'; readonly refusal: Refusal; readonly costMicrocents: bigint | null }

export interface WholeReply extends Heading, Settled {
  readonly kind: 'whole'
  readonly text: string
  readonly finishReason: FinishReason
}

export type ChatReply =
  | WholeReply
  | (Heading & { readonly kind: 'streamed'; readonly parts: AsyncGenerator<StreamedPart, void> })

/** What was charged for, and how much. */
export interface Settled {
  readonly usage: ShownUsage
  readonly costMicrocents: bigint
}
