import type { ChatCall } from '../upstream/spec.ts'
import type { ChatTarget } from './attempt.ts'
import { type OpenedChat, Race, type RaceOptions } from './race.ts'
import { inRounds, type RoundsOptions } from './rounds.ts'

export type OpenChatOptions = RaceOptions & RoundsOptions

/**
 * Sends a chat call to the targets, in the order of the plan, until one begins to answer: its first event is here. Only a
 * failure that says so (`mayFailOver`) lets another target be asked, and only one that says `mayAskAgain` the same one once
 * more. Throws the last target's UpstreamFailure, or the signal's reason after an abort.
 */
export function openChat(
  targets: readonly ChatTarget[],
  call: Omit<ChatCall, 'model'>,
  options: OpenChatOptions,
): Promise<OpenedChat> {
  const { deadlines, clock } = options
  return inRounds(targets, new Race(call, options, clock.monotonicMs() + deadlines.wholeMs), options)
}
