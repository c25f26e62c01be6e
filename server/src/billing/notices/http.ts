import { z } from 'zod'
import { showList } from '../../http/list.ts'
import type { Handle } from '../../http/pipeline.ts'
import type { KeyOrSession } from '../../http/principal.ts'
import type { Queryable } from '../../infra/postgres/database.ts'
import { isInstant } from '../../lib/instant.ts'
import { cursorPage, LIST_SHAPE } from '../../lib/listPage.ts'
import { toTimestamp } from '../../lib/time.ts'
import { listNotices } from './list.ts'
import { type ListedNotice, NOTICE_KINDS, type NoticePlace } from './notice.ts'

export const noticesQuery = z.object(LIST_SHAPE)

const microcents = z.string().regex(/^-?\d+$/)

const noticeEntry = z
  .object({
    kind: z.enum(NOTICE_KINDS).meta({
      description:
        '`daily`, `monthly`, `new_account`: a limit was reached. `low_balance`: the balance fell below the threshold. `auto_pay_off`, `auto_pay_authentication`: auto-pay needs a person. `instance_ending`: no more money could be held for an instance.',
    }),
    noticed_at: z.string().meta({ format: 'date-time' }),
    period_start: z.string().meta({
      format: 'date-time',
      description: 'The first instant of the UTC day or month of a limit; else when it was seen.',
    }),
    amount_microcents: microcents.meta({
      description:
        'Micro-cents: spent in the period, left of the balance, to be paid by auto-pay, or the hourly price of the instance.',
    }),
    limit_microcents: microcents.meta({
      description: 'Micro-cents: the limit that was reached, the threshold, or what is held for the instance.',
    }),
    enforcement: z.enum(['stop_running', 'block_launch', 'notify_only']).meta({
      description: 'The effect that spending limits had then.',
    }),
    instance_id: z
      .string()
      .nullable()
      .meta({ format: 'uuid', description: 'The instance that it is about; null: it is about none.' }),
  })
  .meta({ id: 'Notice' })

export const noticePage = cursorPage(noticeEntry, 'The newest first.', 'NoticePage')

/** GET /manage/v1/notices. */
export function showNotices({ database }: { readonly database: Queryable }): Handle<KeyOrSession> {
  return showList({
    name: 'notices',
    query: noticesQuery,
    place: {
      fieldCount: 3,
      fromFields: placeFromFields,
      toFields: ({ noticedAtMs, kind, periodMs }) => [noticedAtMs, kind, periodMs],
    },
    find: ({ principal }, behind, limit) => listNotices(database, principal.organizationId, behind, limit),
    toWire: noticeToWire,
  })
}

function placeFromFields([noticedAtMs, name, periodMs]: readonly unknown[]): NoticePlace | null {
  const kind = NOTICE_KINDS.find((each) => each === name)
  return kind !== undefined && isInstant(noticedAtMs) && isInstant(periodMs) ? { noticedAtMs, kind, periodMs } : null
}

function noticeToWire(notice: ListedNotice): z.infer<typeof noticeEntry> {
  return {
    kind: notice.kind,
    noticed_at: toTimestamp(notice.noticedAtMs),
    period_start: toTimestamp(notice.periodMs),
    amount_microcents: String(notice.amountMicrocents),
    limit_microcents: String(notice.limitMicrocents),
    enforcement: notice.enforcement,
    instance_id: notice.instanceId,
  }
}
