import type { ClaimedJob, JobKind } from './job.ts'

/**
 * The result of a handler's work on a job. A reason is in our words: it quotes nobody, and has no secret and no
 * address.
 */
export type JobResult =
  | { readonly kind: 'done' }
  /** `isFinal`: another attempt would fail too, so that there is none. */
  | { readonly kind: 'failed'; readonly reason: string; readonly isFinal?: boolean }

export const JOB_DONE: JobResult = { kind: 'done' }

/** A job as its handler is given it. */
export interface Job<Payload> extends Omit<ClaimedJob, 'payload'> {
  readonly payload: Payload
}

/** How jobs of a kind are worked on, with the type of their payload. */
export interface TypedJobHandler<Payload> {
  /** Jobs that one process works on at the same time; half of them, and at least one, of one organization. */
  readonly atOnce: number
  /** An attempt that takes longer has failed, in milliseconds. Its signal aborts then. */
  readonly timeoutMs: number
  /** The delay after each failed attempt but the last, in milliseconds: one attempt more than there are delays. */
  readonly retryMs: readonly number[]
  /** The advice to the operator about a job that is given up, for the log. */
  readonly advice: string
  /** The payload of a job that is given up is emptied, as that of one that is done: it has what nobody may keep. */
  readonly isEmptiedWhenDead?: true
  /**
   * Does the job. It may be done before, by a process that died before it could say so: doing it twice must do no harm. A
   * rejection counts as failed, and is logged. `signal` aborts when the job is another process's, took too long, or when
   * this process stops.
   */
  handle(job: Job<Payload>, signal: AbortSignal): Promise<JobResult>
}

/** A handler with its kind, for jobs as they come from the table. */
export interface JobHandler extends Omit<TypedJobHandler<unknown>, 'handle'> {
  readonly kind: string
  handle(job: ClaimedJob, signal: AbortSignal): Promise<JobResult>
}

/** Says how jobs of a kind are worked on. A payload that does not match the schema is a failed attempt. */
export function jobHandler<Payload>(kind: JobKind<Payload>, handler: TypedJobHandler<Payload>): JobHandler {
  return {
    ...handler,
    kind: kind.name,
    async handle(job, signal) {
      const parsed = kind.payload.safeParse(job.payload)
      if (parsed.success) return handler.handle({ ...job, payload: parsed.data }, signal)
      // Perhaps it was enqueued by a newer version of the program, which may come to it yet.
      const fields = parsed.error.issues.map(({ path }) => path.join('.')).join(', ')
      return { kind: 'failed', reason: `its payload does not match the schema of this version: ${fields}` }
    },
  }
}
