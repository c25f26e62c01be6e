/** The answer to a chat call, before it is written out. */

import type { Arriving } from '../../lib/arriving.ts'
import type { Refusal } from '../../lib/errors.ts'
import type { TokenUsage } from '../../lib/tokenUsage.ts'
import type { FinishReason } from '../../providers/dialect/spec.ts'
import type { PreparedCall } from '../call/paidCall.ts'

/** The fields that every answer has. */
export interface Heading {
  readonly id: string
  readonly createdSeconds: number
  /** The canonical id, whatever the client wrote. */
  readonly model: string
}

/** Usage as shown: `cachedTokens` is above 0, or null when no cached token was charged at a cached rate (C4). */
export interface ShownUsage extends TokenUsage {
  readonly cachedTokens: number | null
}

/** The end of an answer. It is known, and not charged yet: it may leave once `prepared` is committed. */
export interface End {
  readonly finishReason: FinishReason
  readonly usage: ShownUsage
  readonly prepared: PreparedCall
}

/** The last part of a stream that is whole. */
export interface EndPart extends End {
  readonly kind: 'end'
}

export type StreamedPart =
  | { readonly kind: 'text'; readonly text: string }
  | EndPart
  /** The last part of a stream that broke off. The cost is null when nothing was charged; else the charge is durable. */
  | { readonly kind: 'error'; readonly refusal: Refusal; readonly costMicrocents: bigint | null }

export interface WholeReply extends Heading, End {
  readonly text: string
}

/** The parts of a stream. Must be read to their end or returned: the last step charges the call where nobody has. */
export type StreamedParts = AsyncGenerator<StreamedPart, void> & Arriving<StreamedPart>

export interface StreamedReply extends Heading {
  readonly parts: StreamedParts
}
