import { type Refusal, refusal } from '../kernel/errors.ts'
import type { UpstreamFailure } from '../upstream/spec.ts'

/** How soon to ask again where the upstream named no time: long enough not to add to its load, short for a person. */
const DEFAULT_RETRY_AFTER_SECONDS = 1

/** What a client is told of a failure (C7). Our words only: an upstream's may hold prompts, keys, or its own address. */
export function toRefusal(failure: UpstreamFailure): Refusal {
  const explained = failure.publicMessage
  switch (failure.kind) {
    case 'unavailable':
      return refusal('upstream_unavailable', explained ?? 'The model cannot be reached now. Try again in a moment.', {
        retryAfterSeconds: failure.retryAfterSeconds ?? DEFAULT_RETRY_AFTER_SECONDS,
      })
    case 'timeout':
      return refusal('upstream_timeout', explained ?? 'The model took too long to answer. Try again, or ask for less.')
    case 'faulty':
      return refusal('upstream_error', explained ?? 'The model server sent a faulty answer. Try again.')
    case 'misconfigured':
      return refusal(
        'upstream_error',
        explained ?? 'The model server did not accept this gateway. The operator has been told; try again later.',
      )
    case 'rejected':
      return refusal(
        'invalid_request',
        explained ?? 'The model does not take this request. Check roles and order of the messages, and the parameters.',
      )
    case 'too_large':
      return refusal(
        'upstream_response_too_large',
        explained ?? 'The answer would have more bytes than one request may get. Ask for less.',
      )
    case 'context_length':
      return refusal(
        'context_length_exceeded',
        explained ?? "The messages and max_tokens do not fit the model's context. Shorten the messages or max_tokens.",
        { param: 'messages' },
      )
  }
}
