/** Headers of answers as `/openapi.json` says them, of more than one route. */

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
    description: 'Echoes the request id of the client, or one made here.',
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
    description: 'Requests that the key may send at once after a pause.',
    schema: { type: 'integer' },
  },
  'RateLimit-Remaining': {
    description: 'Requests that it may send at once now. Absent where that can not be read at the moment.',
    schema: { type: 'integer' },
  },
  'RateLimit-Reset': {
    description: 'Seconds until it may send `RateLimit-Limit` at once again. Absent as above.',
    schema: { type: 'integer' },
  },
} as const satisfies DescribedHeaders

export const retryAfterHeader = {
  'Retry-After': { description: 'Seconds to wait before the next try.', schema: { type: 'integer', minimum: 1 } },
} as const satisfies DescribedHeaders

export const cacheHeader = {
  'Cache-Control': {
    description: 'Who may keep the answer, and for how long.',
    required: true,
    schema: { type: 'string' },
  },
} as const satisfies DescribedHeaders

/** Of what is 304 to who has it already. */
export const etagHeaders = {
  ...cacheHeader,
  ETag: { description: 'To be sent as If-None-Match.', required: true, schema: { type: 'string' } },
} as const satisfies DescribedHeaders

/** Of streamed answers alone. */
export const streamHeaders: DescribedHeaders = {
  'Cache-Control': { description: 'Of a stream: that nobody keeps it.', schema: { type: 'string' } },
  'X-Accel-Buffering': { description: 'Of a stream: that proxies pass it on as it comes.', schema: { type: 'string' } },
}

/** Where the plan's quota is used up. */
export const planRefusedHeaders: DescribedHeaders = {
  'x-should-retry': {
    description: 'Present where trying again soon is of no use: the quota of the plan is used up.',
    schema: { type: 'string', const: 'false' },
  },
}
