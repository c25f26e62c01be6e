import type { Database } from '../../infra/postgres/database.ts'
import { enqueueMail } from '../../jobs/mail.ts'
import { STOP_PATIENCE_MS } from '../../jobs/runner.ts'
import type { Log } from '../../lib/log.ts'
import { type Clock, DAY_MS, sleep } from '../../lib/time.ts'
import { writeLetter } from './letter.ts'
import type { Notice } from './notice.ts'
import { deleteNoticesBefore, lockUnhandled, markHandled } from './store.ts'

/** Notices locked by one transaction. */
const HANDLED_AT_ONCE = 100

/** Longer than any period that can still be noted, so that what goes is never told again. */
const KEPT_MS = 100 * DAY_MS

export interface NoticeMailerDependencies {
  readonly database: Database
  readonly clock: Clock
  readonly log: Log
  /** False: there is no mail server, and notices are only logged. */
  readonly sendsMail: boolean
  /** True where admins of an organization can change to whom its mails go. */
  readonly hasAccounts: boolean
  /** Called when mails were enqueued and committed. */
  readonly onEnqueued: () => void
}

/** Tells organizations what was noted for them: logs it, and enqueues a mail to each address set for that. */
export interface NoticeMailer {
  /** Something was noted in this process: handles it now. Returns at once. */
  wake(): void
  /** Handles all that is noted, by whichever process. Resolves when it is logged and its mails are enqueued. */
  run(): Promise<void>
  close(): Promise<void>
}

/** Starts nothing by itself: call {@link NoticeMailer.run} now and then. */
export function createNoticeMailer(dependencies: NoticeMailerDependencies): NoticeMailer {
  const { database, clock, log, sendsMail, onEnqueued } = dependencies
  let isClosed = false
  const handle = oneAtATime(async () => {
    while (!isClosed) {
      const count = await handleSome(dependencies)
      if (count > 0 && sendsMail) onEnqueued()
      if (count < HANDLED_AT_ONCE) return
    }
  })
  return {
    async run() {
      await handle()
      await deleteNoticesBefore(database, clock.now() - KEPT_MS)
    },
    wake() {
      handle().catch((error: unknown) => log.warn({ err: error }, 'notices could not be read; tried again in a minute'))
    },
    async close() {
      isClosed = true
      await Promise.race([Promise.allSettled([handle()]), sleep(clock, STOP_PATIENCE_MS)])
    },
  }
}

/** Logs notices and enqueues their mails; returns how many there were. A crash in it logs them again and mails them once. */
function handleSome({ database, clock, log, sendsMail, hasAccounts }: NoticeMailerDependencies): Promise<number> {
  return database.transaction(async (tx) => {
    const notices = await lockUnhandled(tx, HANDLED_AT_ONCE)
    for (const { notice, addresses } of notices) {
      const { organizationId, organizationName, kind, periodMs, enforcement } = notice
      const about = notice.instanceId === null ? {} : { instance: notice.instanceId }
      const fields = { organizationId, organization: organizationName, kind, enforcement, ...about }
      const period = new Date(periodMs).toISOString()
      const amounts = { microcents: String(notice.amountMicrocents), limitMicrocents: String(notice.limitMicrocents) }
      log.warn({ ...fields, period, ...amounts }, LOGGED[kind])
      const dueAtMs = clock.now()
      await markHandled(tx, notice, dueAtMs)
      if (!sendsMail) continue
      const mail = { organizationId, ...writeLetter(notice, hasAccounts), about: `${kind} ${periodMs}`, dueAtMs }
      for (const to of addresses) await enqueueMail(tx, { ...mail, to })
    }
    return notices.length
  })
}

const LOGGED: Readonly<Record<Notice['kind'], string>> = {
  daily: 'an organization has reached its daily spending limit',
  monthly: 'an organization has reached its monthly spending limit',
  new_account: 'an organization has reached the spending cap of new accounts',
  low_balance: "an organization's balance is low",
  auto_pay_off: 'auto-pay of an organization is switched off: its payments were declined',
  instance_ending: 'an instance ends when the money that is held for it is used up',
  auto_pay_authentication: "a payment by auto-pay needs a person: the card's bank asks for authentication",
}

/** Runs `work` once at a time, and once more when it was asked for meanwhile. */
function oneAtATime(work: () => Promise<void>): () => Promise<void> {
  let running: Promise<void> | null = null
  let isAsked = false
  const runAll = async () => {
    try {
      do {
        isAsked = false
        await work()
      } while (isAsked)
    } finally {
      running = null
    }
  }
  return () => {
    isAsked = true
    running ??= runAll()
    return running
  }
}
