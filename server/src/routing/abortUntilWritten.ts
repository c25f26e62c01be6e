import type { CallSignal } from '../lib/callSignal.ts'

/**
 * A client's hang-up, as far as it ends a call whose answer comes in one piece (C3). It ends the call until a target has the whole
 * request. From then on the target may be working, and somebody must pay: the call goes on as if its client were there, unless
 * the target refuses it or fails. A target that is only late may still be at work.
 */
export class AbortUntilWritten {
  private readonly client: CallSignal
  private readonly controller = new AbortController()
  /** A target that has neither refused the call nor failed has all of it. */
  private isCommitted = false

  /** `client` is aborted when the client is gone. */
  constructor(client: CallSignal) {
    this.client = client
    client.addEventListener('abort', this.look)
    this.look()
  }

  /** Aborted, with the client's reason, when the hang-up ends the call. */
  get signal(): AbortSignal {
    return this.controller.signal
  }

  /** Begins an attempt at a target; report its fate to the returned object. One attempt at a time. */
  attempt(): CommittingAttempt {
    const wasCommitted = this.isCommitted
    return {
      written: () => {
        this.isCommitted = true
      },
      failed: () => {
        this.isCommitted = wasCommitted
        this.look()
      },
    }
  }

  /** Call it when the call is over: the client's leaving then ends nothing. */
  close(): void {
    this.client.removeEventListener('abort', this.look)
  }

  private readonly look = (): void => {
    if (this.client.aborted && !this.isCommitted) this.controller.abort(this.client.reason)
  }
}

export interface CommittingAttempt {
  /** The target has the whole request; may be told more than once. */
  written(): void
  /** The target is not at work on the call: it refused it, or failed otherwise than by being late. */
  failed(): void
}
