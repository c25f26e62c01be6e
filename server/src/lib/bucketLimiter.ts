/** Takes a token of a bucket, for rooms that bound what one customer, person or address does; `http/limits/` has the buckets. */
export interface BucketLimiter {
  take(
    bucket: string,
    limit: { readonly perSecond: number; readonly burst: number },
  ): BucketVerdict | Promise<BucketVerdict>
}

export interface BucketVerdict {
  readonly admitted: boolean
  /** Null while a shared store is away: then nothing is known of the bucket, and all is admitted. */
  readonly standing: { readonly retryAfterSeconds: number } | null
}
