import { createHash } from 'node:crypto'
import type { Database } from '../io/postgres/database.ts'
import type { Log } from '../kernel/log.ts'
import type { Mailer } from '../kernel/mail.ts'
import { type Clock, DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS, sleep } from '../kernel/time.ts'
import { writeLetter } from './letter.ts'
import type { Notice, NoticeMail } from './notice.ts'
import { claimMails, deleteMail, deleteNoticesBefore, lockUnhandled, markHandled, postponeMail } from './store.ts'

/** Between an attempt that failed and the next: nearly a day in all, long enough to mend a mail server. */
const RETRIES_MS = [MINUTE_MS, 5 * MINUTE_MS, 15 * MINUTE_MS, HOUR_MS, 3 * HOUR_MS, 6 * HOUR_MS, 12 * HOUR_MS] as const

/** Nobody else takes a mail for so long: more than its attempt can last, so that none is sent by two. */
const CLAIM_MS = 5 * MINUTE_MS

/** Mails that one process sends at the same time; a slow server holds up nothing but other mails. */
const SENDING_AT_ONCE = 4

/** Notices locked by one transaction. */
const HANDLED_AT_ONCE = 100

/** How long a stop waits for mails being sent: who aborts one does not know whether it will arrive. */
const STOP_PATIENCE_MS = 5 * SECOND_MS

/** Longer than any period that can still be noted, so that what goes is never told again. */
const KEPT_MS = 100 * DAY_MS

export interface CourierDependencies {
  readonly database: Database
  readonly clock: Clock
  readonly log: Log
  /** Null: no mail is sent, notices are only logged. */
  readonly mailer: Mailer | null
}

/** Tells organizations what was noted for them: logs it, and mails it to the addresses set for that. */
export interface Courier {
  /** Something was noted in this process: sees to it now. Returns at once. */
  wake(): void
  /** Sees to all that is noted and due, whoever noted it. Resolves when it is logged; mails go on their own. */
  run(): Promise<void>
  close(): Promise<void>
}

/** Starts nothing by itself: call {@link Courier.run} now and then. */
export function createCourier(dependencies: CourierDependencies): Courier {
  const { database, clock, log, mailer } = dependencies
  let isClosed = false
  const handle = oneAtATime(async () => {
    while (!isClosed && (await handleSome(dependencies)) === HANDLED_AT_ONCE);
  })
  const send = oneAtATime(async () => {
    if (mailer === null) return
    for (;;) {
      const nowMs = clock.now()
      const mails = isClosed ? [] : await claimMails(database, nowMs, nowMs + CLAIM_MS, SENDING_AT_ONCE)
      if (mails.length === 0) return
      await Promise.all(mails.map((mail) => attempt(dependencies, mailer, mail)))
    }
  })
  const sendSoon = () => {
    send().catch((error: unknown) => log.warn({ err: error }, 'notices could not be mailed; tried again in a minute'))
  }
  const run = async () => {
    await handle()
    sendSoon()
  }
  return {
    run: async () => {
      await run()
      await deleteNoticesBefore(database, clock.now() - KEPT_MS)
    },
    wake: () => {
      run().catch((error: unknown) => log.warn({ err: error }, 'notices could not be read; tried again in a minute'))
    },
    async close() {
      isClosed = true
      const resting = Promise.allSettled([handle(), send()])
      await Promise.race([resting, sleep(clock, STOP_PATIENCE_MS)])
      mailer?.close()
    },
  }
}

/** Logs notices and puts their mails on their way; how many there were. What is logged twice was so by a crash between. */
function handleSome({ database, clock, log, mailer }: CourierDependencies): Promise<number> {
  return database.transaction(async (tx) => {
    const notices = await lockUnhandled(tx, HANDLED_AT_ONCE)
    for (const notice of notices) {
      const { organizationId, organizationName, kind, periodMs, enforcement } = notice
      const fields = { organizationId, organization: organizationName, kind, enforcement }
      const period = new Date(periodMs).toISOString()
      const amounts = { microcents: String(notice.amountMicrocents), limitMicrocents: String(notice.limitMicrocents) }
      log.warn({ ...fields, period, ...amounts }, LOGGED[kind])
      await markHandled(tx, notice, mailer !== null, clock.now())
    }
    return notices.length
  })
}

const LOGGED: Readonly<Record<Notice['kind'], string>> = {
  daily: 'an organization has reached its daily spending limit',
  monthly: 'an organization has reached its monthly spending limit',
  new_account: 'an organization has reached the spending cap of new accounts',
  low_balance: "an organization's balance is low",
}

/** Never rejects: what can't be written down is tried again once the claim has run out. */
async function attempt({ database, clock, log }: CourierDependencies, mailer: Mailer, mail: NoticeMail): Promise<void> {
  const { notice, address, attempts } = mail
  const { organizationId, kind } = notice
  try {
    const failure = await mailer
      .send({ to: address, ...writeLetter(notice), id: messageId(mail), dateMs: clock.now() })
      .then(() => null, reasonOf)
    if (failure === null) return await deleteMail(database, mail)
    const delayMs = RETRIES_MS[attempts - 1]
    const fields = { organizationId, kind, attempts, reason: failure }
    if (delayMs !== undefined) {
      await postponeMail(database, mail, clock.now() + delayMs)
      return log.warn(fields, 'a notice could not be mailed; it is tried again')
    }
    await deleteMail(database, mail)
    log.error(fields, 'a notice could not be mailed for a day and is given up; check the settings under "smtp"')
  } catch (error) {
    log.warn(
      { err: error, organizationId, kind },
      'what became of a mail could not be written down; it may be sent again',
    )
  }
}

/** The same for every attempt, so that a mail server that took it twice can tell. */
function messageId({ notice, address }: NoticeMail): string {
  const { organizationId, kind, periodMs } = notice
  return createHash('sha256').update([organizationId, kind, periodMs, address].join(' ')).digest('hex').slice(0, 32)
}

/** What kind of failure it was; never the server's words, which quote addresses. */
function reasonOf(error: unknown): string {
  const { code, responseCode } = (error ?? {}) as { code?: unknown; responseCode?: unknown }
  return [code, responseCode].filter((part) => part !== undefined).join(' ') || 'unknown'
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
