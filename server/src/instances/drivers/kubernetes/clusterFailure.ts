/** Why the API of the cluster gave no answer that can be used. */

/** Of what the API says, for the log. */
const WORDS_MOST = 300

export class ClusterFailure extends Error {
  /** Of HTTP; 0: there was no answer. */
  readonly status: number
  /** How long the API asks to wait before the next request. */
  readonly retryAfterMs: number

  constructor(status: number, words: string, retryAfterMs = 0) {
    super(words.slice(0, WORDS_MOST))
    this.name = 'ClusterFailure'
    this.status = status
    this.retryAfterMs = retryAfterMs
  }
}

/** A quota that was made a moment ago refuses everything until the cluster has counted what there is. */
const UNCOUNTED_QUOTA = /status unknown for quota/

/** Returns whether the same request may succeed a moment later. */
export function mayPass(error: unknown): error is ClusterFailure {
  if (!(error instanceof ClusterFailure)) return false
  const { status, message } = error
  return status === 0 || status === 429 || status >= 500 || (status === 403 && UNCOUNTED_QUOTA.test(message))
}

/** Resolves to `other` where the API answers with this status. Rejects as `asked` does otherwise. */
export async function exceptAt<T, Other>(status: number, asked: Promise<T>, other: Other): Promise<T | Other> {
  try {
    return await asked
  } catch (error) {
    if (error instanceof ClusterFailure && error.status === status) return other
    throw error
  }
}

/** The failure that an answer tells of: a `Status` of the API, or whatever stands before it. */
export function clusterRefusal(status: number, retryAfter: string | null, body: string): ClusterFailure {
  const seconds = Number(retryAfter ?? 0)
  const waitMs = Number.isFinite(seconds) && seconds > 0 ? seconds * 1_000 : 0
  return new ClusterFailure(status, `the cluster answered ${status}${messageOf(body)}`, waitMs)
}

function messageOf(body: string): string {
  try {
    const { message } = JSON.parse(body) as { message?: unknown }
    return typeof message === 'string' ? `: ${message}` : ''
  } catch {
    return ''
  }
}
