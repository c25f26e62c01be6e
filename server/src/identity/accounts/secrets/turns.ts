import { refuse } from '../../../lib/errors.ts'

/** A hash of a password takes some 32 MiB and a core for a tenth of a second. */
const AT_ONCE = 4
/** They wait up to about three seconds; more would only time out. */
const WAITING_MOST = 100

/** Lets few of many works run at once. Refuses (`upstream_unavailable`) once too many wait. */
export class Turns {
  private running = 0
  private readonly waiting: (() => void)[] = []

  async take<T>(work: () => Promise<T>): Promise<T> {
    if (this.running < AT_ONCE) this.running += 1
    else {
      if (this.waiting.length >= WAITING_MOST)
        refuse('upstream_unavailable', 'Too many people sign in at this moment. Try again.', { retryAfterSeconds: 5 })
      await new Promise<void>((resolve) => this.waiting.push(resolve))
    }
    try {
      return await work()
    } finally {
      // The place goes to the next one, or is given back.
      const next = this.waiting.shift()
      if (next === undefined) this.running -= 1
      else next()
    }
  }
}
