/** The headers of answers that more than one route describes in `/openapi.json`. */

/** Headers of a response by their names; those that are `required` are on each. */
export type DescribedHeaders = Readonly<
  Record<
    string,
    {
      readonly description: string
      readonly required?: true
      readonly schema: {
        readonly type: 'string' | 'integer'
        readonly const?: string
        readonly pattern?: string
        readonly minimum?: number
      }
    }
  >
>

export const requestIdHeader = {
  'X-Request-Id': {
    description: 'The request id that the client sent, or a new one.',
    required: true,
    schema: { type: 'string' },
  },
} as const satisfies DescribedHeaders

export const replayedHeader = {
  'Idempotency-Replayed': {
    description: 'Present when this is the answer of an earlier request with the same Idempotency-Key.',
    schema: { type: 'string', const: 'true' },
  },
} as const satisfies DescribedHeaders

export const rateHeaders = {
  'RateLimit-Limit': {
    description: 'The most requests that the key, or the address on a public route, may send at once: the burst.',
    schema: { type: 'integer' },
  },
  'RateLimit-Remaining': {
    description: "Requests that the key may send at once now. Absent while the limit can't be read.",
    schema: { type: 'integer' },
  },
  'RateLimit-Reset': {
    description:
      "Seconds until the key may send `RateLimit-Limit` requests at once. Absent while the limit can't be read.",
    schema: { type: 'integer' },
  },
} as const satisfies DescribedHeaders

export const retryAfterHeader = {
  'Retry-After': { description: 'Seconds to wait before the next try.', schema: { type: 'integer', minimum: 1 } },
} as const satisfies DescribedHeaders

export const cacheHeader = {
  'Cache-Control': {
    description: 'Says which caches may keep the answer, and for how long.',
    required: true,
    schema: { type: 'string' },
  },
} as const satisfies DescribedHeaders

/** Of every answer that needed a key or a session (E18). Some routes say something else of caches. */
export const privateHeaders = {
  ...cacheHeader,
  'X-Content-Type-Options': {
    description: 'Tells browsers to trust Content-Type and not to guess.',
    required: true,
    schema: { type: 'string', const: 'nosniff' },
  },
} as const satisfies DescribedHeaders

/** Of answers that are 304 where the client has them already. */
export const etagHeaders = {
  ...cacheHeader,
  ETag: { description: 'Send it as If-None-Match.', required: true, schema: { type: 'string' } },
} as const satisfies DescribedHeaders

/** Of streamed answers alone. */
export const streamHeaders: DescribedHeaders = {
  'X-Accel-Buffering': { description: 'On a stream: proxies must not buffer it.', schema: { type: 'string' } },
}

/** Of refusals that clients try again by themselves, though it is of no use. */
export const uselessRetryHeader: DescribedHeaders = {
  'x-should-retry': {
    description: 'Present if trying the same again is of no use.',
    schema: { type: 'string', const: 'false' },
  },
}

/** Where the plan's quota is used up. */
export const planRefusedHeaders: DescribedHeaders = {
  'x-should-retry': {
    description: 'Present if the quota of the plan is used up, so that trying again soon is of no use.',
    schema: { type: 'string', const: 'false' },
  },
}
