import type { Refusal } from '../../lib/errors.ts'
import { ADDRESS_RATE_LIMIT, type RateVerdict } from '../limits/rateLimit.ts'
import { refuseRate } from '../limits/wire.ts'
import type { Middleware, PendingRequest, PipelineDependencies } from '../pipeline.ts'
import type { Principal } from '../principal.ts'

type RateDependencies = Pick<
  PipelineDependencies,
  'clock' | 'rateLimiter' | 'rateLimit' | 'newAccountRateLimit' | 'addressRateLimiter'
>

/** The word for whose requests are limited. */
const LIMITED: Readonly<Record<Principal['kind'], 'key' | 'session' | 'address'>> = {
  apiKey: 'key',
  session: 'session',
  public: 'address',
  signed: 'address',
}

/** Takes a token of the caller's bucket: 429 where there is none. Without a key or a session the bucket is the address's. */
export function rate(dependencies: RateDependencies): Middleware {
  const { clock, rateLimiter, rateLimit, newAccountRateLimit, addressRateLimiter } = dependencies
  return (pending) => {
    const { principal } = pending
    if (principal.kind === 'signed') throw new Error('the rate of a signed request is taken before it is verified')
    if (principal.kind === 'public') {
      return judge(pending, addressRateLimiter.take(principal.address, ADDRESS_RATE_LIMIT))
    }
    const isNew = principal.newUntilMs !== null && clock.now() < principal.newUntilMs
    return judge(pending, rateLimiter.take(principal.id, isNew ? newAccountRateLimit : rateLimit))
  }
}

function judge(
  pending: PendingRequest,
  taken: RateVerdict | Promise<RateVerdict>,
): Refusal | null | Promise<Refusal | null> {
  return taken instanceof Promise ? taken.then((verdict) => note(pending, verdict)) : note(pending, taken)
}

function note(pending: PendingRequest, verdict: RateVerdict): Refusal | null {
  pending.rate = verdict
  return refuseRate(verdict, LIMITED[pending.principal.kind])
}
