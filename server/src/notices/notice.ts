import type { Enforcement } from '../money/gates.ts'

/** What an organization is told of, once for each period. */
export type NoticeKind = 'daily' | 'monthly' | 'new_account' | 'low_balance'

/** Something that an organization is told. Amounts are micro-cents. */
export interface Notice {
  readonly organizationId: string
  readonly organizationName: string
  readonly kind: NoticeKind
  /** The first instant of the UTC day or month; of a low balance the instant at which it was seen. */
  readonly periodMs: number
  /** What was spent in the period; of a low balance, what was left. */
  readonly amountMicrocents: bigint
  /** The limit that was reached, or the threshold. */
  readonly limitMicrocents: bigint
  /** What the customer's own limits did when it was seen (P5). */
  readonly enforcement: Enforcement
  readonly noticedAtMs: number
}

/** One mail of a notice, as it was claimed for an attempt. */
export interface NoticeMail {
  readonly notice: Notice
  readonly address: string
  /** This one counted in; from 1. */
  readonly attempts: number
}
