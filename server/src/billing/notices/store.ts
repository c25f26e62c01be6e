/** Every statement on `notices` but those that note limits and balances: `billing/admission/renewal/`, `accounts/noteLimit.ts`. */

import type { Queryable, Transaction } from '../../infra/postgres/database.ts'
import { toTimestamp } from '../../lib/time.ts'
import type { ListedNotice, Notice, NoticePlace } from './notice.ts'

interface NoticeRow {
  readonly organization_id: string
  readonly organization_name: string
  readonly kind: Notice['kind']
  readonly period: Date
  readonly amount_microcents: bigint
  readonly limit_microcents: bigint
  readonly enforcement: Notice['enforcement']
  readonly noticed_at: Date
  readonly instance_id: string | null
  readonly link: string | null
  readonly notify_addresses: string[]
}

/** A notice that is to be handled, and the addresses that are told of it. */
export interface UnhandledNotice {
  readonly notice: Notice
  readonly addresses: readonly string[]
}

const COLUMNS = `n.organization_id, o.name as organization_name, n.kind, n.period, n.amount_microcents, n.limit_microcents,
  n.enforcement, n.noticed_at, n.instance_id, n.link, o.notify_addresses`

/** Returns notices that no process has logged yet, oldest first, locked until the transaction ends. */
export async function lockUnhandled(tx: Transaction, limit: number): Promise<UnhandledNotice[]> {
  const rows = await tx.query<NoticeRow>(
    `select ${COLUMNS} from notices n join organizations o on o.id = n.organization_id
     where n.handled_at is null order by n.noticed_at limit $1::integer for update of n skip locked`,
    [limit],
  )
  return rows.map((row) => ({ notice: toNotice(row), addresses: row.notify_addresses }))
}

/** Notes something that is told once for its instant, such as that auto-pay needs a person, with the account's enforcement. */
export async function insertNoticeAt(
  tx: Transaction,
  notice: {
    readonly organizationId: string
    readonly kind: Notice['kind']
    readonly amountMicrocents: bigint
    readonly limitMicrocents: bigint
    readonly atMs: number
    readonly link: string | null
  },
): Promise<void> {
  await tx.query(
    `insert into notices (organization_id, kind, period, amount_microcents, limit_microcents, enforcement, noticed_at, link)
     select organization_id, $2, $3::timestamptz, $4::bigint, $5::bigint, enforcement, $3::timestamptz, $6
     from accounts where organization_id = $1::uuid on conflict do nothing`,
    [
      notice.organizationId,
      notice.kind,
      toTimestamp(notice.atMs),
      notice.amountMicrocents,
      notice.limitMicrocents,
      notice.link,
    ],
  )
}

/**
 * Notes an instance that is about to end. Its account is locked, so that two at one instant get a place each: the period of the second is a
 * millisecond later.
 */
export async function insertInstanceNotice(
  tx: Transaction,
  notice: Pick<Notice, 'organizationId' | 'amountMicrocents' | 'limitMicrocents' | 'noticedAtMs'> & {
    readonly instanceId: string
  },
): Promise<void> {
  await tx.query(
    `insert into notices (organization_id, kind, period, amount_microcents, limit_microcents, enforcement, noticed_at, instance_id)
     select organization_id, 'instance_ending', greatest($2::timestamptz, (select max(period) + interval '1 millisecond' from notices
         where organization_id = $1::uuid and kind = 'instance_ending' and period >= $2::timestamptz)),
       $3::bigint, $4::bigint, enforcement, $2::timestamptz, $5::uuid
     from accounts where organization_id = $1::uuid`,
    [
      notice.organizationId,
      toTimestamp(notice.noticedAtMs),
      notice.amountMicrocents,
      notice.limitMicrocents,
      notice.instanceId,
    ],
  )
}

/** Marks a notice as logged, with its mails enqueued in the same transaction. */
export async function markHandled(tx: Transaction, notice: Notice, atMs: number): Promise<void> {
  await tx.query(
    `update notices set handled_at = $4::timestamptz
     where organization_id = $1::uuid and kind = $2 and period = $3::timestamptz`,
    [notice.organizationId, notice.kind, toTimestamp(notice.periodMs), toTimestamp(atMs)],
  )
}

/** Returns at most `atMost` notices of an organization, the newest first, from the one after the place `after` on. */
export async function selectNotices(
  db: Queryable,
  organizationId: string,
  after: NoticePlace | null,
  atMost: number,
): Promise<ListedNotice[]> {
  const rows = await db.query<Omit<NoticeRow, 'organization_id' | 'organization_name' | 'link' | 'notify_addresses'>>(
    `select kind, period, amount_microcents, limit_microcents, enforcement, noticed_at, instance_id from notices
     where organization_id = $1::uuid and ($2::timestamptz is null or (noticed_at <= $2::timestamptz
       and (noticed_at < $2::timestamptz or (kind, period) > ($3::text, $4::timestamptz))))
     order by noticed_at desc, kind, period limit $5::integer`,
    [
      organizationId,
      after && toTimestamp(after.noticedAtMs),
      after?.kind ?? null,
      after && toTimestamp(after.periodMs),
      atMost,
    ],
  )
  return rows.map((row) => ({
    kind: row.kind,
    periodMs: row.period.getTime(),
    amountMicrocents: row.amount_microcents,
    limitMicrocents: row.limit_microcents,
    enforcement: row.enforcement,
    noticedAtMs: row.noticed_at.getTime(),
    instanceId: row.instance_id,
  }))
}

/** Deletes notices that were noted before an instant and are handled. */
export async function deleteNoticesBefore(db: Queryable, beforeMs: number): Promise<void> {
  await db.query('delete from notices where noticed_at < $1::timestamptz and handled_at is not null', [
    toTimestamp(beforeMs),
  ])
}

/** Deletes the notices of an organization. */
export async function deleteNoticesOf(db: Queryable, organizationId: string): Promise<void> {
  await db.query('delete from notices where organization_id = $1::uuid', [organizationId])
}

function toNotice(row: NoticeRow): Notice {
  return {
    organizationId: row.organization_id,
    organizationName: row.organization_name,
    kind: row.kind,
    periodMs: row.period.getTime(),
    amountMicrocents: row.amount_microcents,
    limitMicrocents: row.limit_microcents,
    enforcement: row.enforcement,
    noticedAtMs: row.noticed_at.getTime(),
    instanceId: row.instance_id,
    link: row.link,
  }
}
