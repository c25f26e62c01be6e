import type { Enforcement } from '../admission/gates.ts'

/** The kinds of notices. An organization gets each at most once for a period. */
export const NOTICE_KINDS = [
  'daily',
  'monthly',
  'new_account',
  'low_balance',
  'auto_pay_off',
  'auto_pay_authentication',
  'instance_ending',
] as const
export type NoticeKind = (typeof NOTICE_KINDS)[number]

/** Something that an organization is told. Amounts are micro-cents. */
export interface Notice {
  readonly organizationId: string
  readonly organizationName: string
  readonly kind: NoticeKind
  /** The first instant of the UTC day or month; of a low balance, of auto-pay and of an instance the instant at which it was seen. */
  readonly periodMs: number
  /**
   * The amount spent in the period; of a low balance, the amount left; of auto-pay, the amount to be paid; of an instance, its
   * hourly price.
   */
  readonly amountMicrocents: bigint
  /** The limit that was reached, or the threshold; of an instance, the amount that is held for its last minutes. */
  readonly limitMicrocents: bigint
  /** The enforcement of the customer's own limits when the limit was reached (P5). */
  readonly enforcement: Enforcement
  readonly noticedAtMs: number
  /** The instance that it is about; null: it is about none. */
  readonly instanceId: string | null
  /**
   * Of auto-pay: the address where a person mends it; anybody who has the link may open it. Null: a notice of another
   * kind.
   */
  readonly link: string | null
}

/** A notice in its organization's list, without the link: anybody who has the link may open it. */
export type ListedNotice = Omit<Notice, 'organizationId' | 'organizationName' | 'link'>

/** A notice's place in the list. */
export type NoticePlace = Pick<Notice, 'noticedAtMs' | 'kind' | 'periodMs'>
