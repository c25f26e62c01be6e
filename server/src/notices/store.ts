import type { Queryable, Transaction } from '../io/postgres/database.ts'
import { toTimestamp } from '../kernel/time.ts'
import type { Notice, NoticeMail } from './notice.ts'

/** Every statement on `notices` and `notice_mails` but those that note what happened, which are in `money/accounts/`. */

interface NoticeRow {
  readonly organization_id: string
  readonly organization_name: string
  readonly kind: Notice['kind']
  readonly period: Date
  readonly amount_microcents: bigint
  readonly limit_microcents: bigint
  readonly enforcement: Notice['enforcement']
  readonly noticed_at: Date
}

const COLUMNS = `n.organization_id, o.name as organization_name, n.kind, n.period, n.amount_microcents, n.limit_microcents,
  n.enforcement, n.noticed_at`

/** Notices that nobody has logged and put on their way yet, oldest first, locked until the transaction ends. */
export async function lockUnhandled(tx: Transaction, limit: number): Promise<Notice[]> {
  const rows = await tx.query<NoticeRow>(
    `select ${COLUMNS} from notices n join organizations o on o.id = n.organization_id
     where n.handled_at is null order by n.noticed_at limit $1::integer for update of n skip locked`,
    [limit],
  )
  return rows.map(toNotice)
}

/** Marks a notice as logged and, where mail is sent, puts a mail to each of its organization's addresses on its way. */
export async function markHandled(tx: Transaction, notice: Notice, sendsMail: boolean, atMs: number): Promise<void> {
  const parameters = [notice.organizationId, notice.kind, toTimestamp(notice.periodMs), toTimestamp(atMs)]
  await tx.query(
    `update notices set handled_at = $4::timestamptz
     where organization_id = $1::uuid and kind = $2 and period = $3::timestamptz`,
    parameters,
  )
  if (!sendsMail) return
  await tx.query(
    `insert into notice_mails (organization_id, kind, period, address, due_at)
     select id, $2, $3::timestamptz, unnest(notify_addresses), $4::timestamptz from organizations where id = $1::uuid
     on conflict do nothing`,
    parameters,
  )
}

/**
 * Takes mails that are due for an attempt, and keeps others from them until `untilMs`. A mail whose address was removed
 * meanwhile is due all the same.
 */
export async function claimMails(db: Queryable, nowMs: number, untilMs: number, limit: number): Promise<NoticeMail[]> {
  const rows = await db.query<NoticeRow & { address: string; attempts: number }>(
    `with due as (
       select organization_id, kind, period, address from notice_mails where due_at <= $1::timestamptz
       order by due_at limit $3::integer for update skip locked
     ), taken as (
       update notice_mails m set attempts = m.attempts + 1, due_at = $2::timestamptz from due
       where (m.organization_id, m.kind, m.period, m.address) = (due.organization_id, due.kind, due.period, due.address)
       returning m.*
     )
     select ${COLUMNS}, t.address, t.attempts from taken t
     join notices n using (organization_id, kind, period) join organizations o on o.id = n.organization_id`,
    [toTimestamp(nowMs), toTimestamp(untilMs), limit],
  )
  return rows.map((row) => ({ notice: toNotice(row), address: row.address, attempts: row.attempts }))
}

/** Forgets a mail that was sent or given up, unless it was taken by another since. */
export async function deleteMail(db: Queryable, mail: NoticeMail): Promise<void> {
  await db.query(
    `delete from notice_mails where organization_id = $1::uuid and kind = $2 and period = $3::timestamptz
       and address = $4 and attempts = $5::integer`,
    keyOf(mail),
  )
}

/** Puts a mail off, unless it was taken by another since. */
export async function postponeMail(db: Queryable, mail: NoticeMail, dueMs: number): Promise<void> {
  await db.query(
    `update notice_mails set due_at = $6::timestamptz where organization_id = $1::uuid and kind = $2
       and period = $3::timestamptz and address = $4 and attempts = $5::integer`,
    [...keyOf(mail), toTimestamp(dueMs)],
  )
}

/** Drops what was noted before an instant, with whatever mails are left of it. */
export async function deleteNoticesBefore(db: Queryable, beforeMs: number): Promise<void> {
  await db.query('delete from notices where noticed_at < $1::timestamptz and handled_at is not null', [
    toTimestamp(beforeMs),
  ])
}

function keyOf({ notice, address, attempts }: NoticeMail) {
  return [notice.organizationId, notice.kind, toTimestamp(notice.periodMs), address, attempts] as const
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
  }
}
