import type { Aim } from './plan.ts'

/** Encodes one request for each Authorization of the aim; callers take them in turn. */
export function encodeRequests(aim: Aim): Buffer[] {
  const body = JSON.stringify(aim.body)
  const headers = Object.entries(aim.headers).map(([name, value]) => `${name}: ${value}\r\n`)
  const authorizations = aim.authorizations.length > 0 ? aim.authorizations : ['Bearer none']
  return authorizations.map((authorization) =>
    Buffer.from(
      `POST ${aim.path} HTTP/1.1\r\nHost: 127.0.0.1:${aim.port}\r\nContent-Type: application/json\r\n` +
        `Authorization: ${authorization}\r\n${headers.join('')}Content-Length: ${Buffer.byteLength(body)}\r\n\r\n${body}`,
    ),
  )
}

/** Counts answers; gives up on a target that does little but fail, so that a broken one can't spin for minutes. */
export class Tally {
  static readonly MAX_ERRORS = 1_000
  good = 0
  errors = 0
  firstError: string | null = null

  /** True when the answer was good. */
  count(error: string | null): boolean {
    if (error === null) {
      this.good++
      return true
    }
    this.errors++
    this.firstError ??= error
    return false
  }

  get hopeless(): boolean {
    return this.errors >= Tally.MAX_ERRORS
  }
}
