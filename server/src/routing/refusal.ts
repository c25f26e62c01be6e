import { type Refusal, refusal } from '../lib/errors.ts'
import type { ProviderFailure } from '../providers/dialect/spec.ts'

/** How soon to ask again where the provider named no time: long enough not to add to its load, short for a person. */
const DEFAULT_RETRY_AFTER_SECONDS = 1

/**
 * Returns the refusal that a client gets for a failure (C7). Our words only: a provider's may hold prompts, keys, or
 * its address.
 */
export function toRefusal(failure: ProviderFailure): Refusal {
  const explained = failure.publicMessage
  switch (failure.kind) {
    case 'unavailable':
      return refusal('upstream_unavailable', explained ?? "The model can't be reached now. Try again in a moment.", {
        retryAfterSeconds: failure.retryAfterSeconds ?? DEFAULT_RETRY_AFTER_SECONDS,
      })
    case 'timeout':
      return refusal('upstream_timeout', explained ?? 'The model took too long to answer. Try again, or ask for less.')
    case 'faulty':
      return refusal('upstream_error', explained ?? 'The model server sent a faulty answer. Try again.')
    case 'misconfigured':
      return refusal(
        'upstream_error',
        explained ??
          "The model server did not accept this gateway. The reason is in the operator's log. Try again later.",
      )
    case 'rejected':
      return refusal(
        'invalid_request',
        explained ?? 'The model does not accept this request. Check its messages, their roles and its parameters.',
      )
    case 'too_large':
      return refusal(
        'upstream_response_too_large',
        explained ?? 'The answer would be larger than one answer may be. Ask for less.',
      )
    case 'context_length':
      return refusal(
        'context_length_exceeded',
        explained ?? "The messages and max_tokens do not fit the model's context. Shorten the messages or max_tokens.",
        { param: 'messages' },
      )
  }
}
