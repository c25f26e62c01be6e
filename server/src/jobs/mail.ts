/** Mails as jobs: any room enqueues one in its transaction, and a process with a mail server sends it. */

import { createHash } from 'node:crypto'
import { z } from 'zod'
import type { Queryable, Transaction } from '../infra/postgres/database.ts'
import type { Mail, MailTransport } from '../lib/mail.ts'
import { type Clock, HOUR_MS, MINUTE_MS } from '../lib/time.ts'
import { dropJobs } from './drop.ts'
import { enqueue } from './enqueue.ts'
import { JOB_DONE, type JobHandler, type JobResult, jobHandler } from './handler.ts'
import type { JobKind } from './job.ts'
import { selectJobsWith } from './store.ts'

const MailPayload = z.strictObject({
  /** One address. */
  to: z.string().min(1).max(320),
  subject: z.string().min(1).max(1_000),
  /** Plain text. */
  text: z.string().min(1).max(32_000),
  /** The left part of the Message-ID. */
  messageId: z.string().regex(/^[0-9a-f]{32}$/),
})

const MAIL: JobKind<z.infer<typeof MailPayload>> = { name: 'mail', payload: MailPayload }

/** Between an attempt that failed and the next: nearly a day in all, long enough to mend a mail server. */
export const MAIL_RETRIES_MS = [
  MINUTE_MS,
  5 * MINUTE_MS,
  15 * MINUTE_MS,
  HOUR_MS,
  3 * HOUR_MS,
  6 * HOUR_MS,
  12 * HOUR_MS,
]

/** Mails that one process sends at the same time; a slow server holds up nothing but other mails. */
const SENDING_AT_ONCE = 8

/** More than a {@link MailTransport} takes, which says itself how it failed. */
const TIMEOUT_MS = 2 * MINUTE_MS

export interface NewMail {
  readonly organizationId: string
  readonly to: string
  readonly subject: string
  readonly text: string
  /** Says what the mail is about: the same words and the same address are one mail, which is sent once. */
  readonly about: string
  readonly dueAtMs: number
}

/** Enqueues a mail in the caller's transaction. Returns whether it is new. */
export function enqueueMail(
  tx: Transaction,
  { organizationId, to, subject, text, about, dueAtMs }: NewMail,
): Promise<boolean> {
  // The same for every attempt, so that a mail server that took it twice can tell.
  const messageId = createHash('sha256').update([organizationId, about, to].join(' ')).digest('hex').slice(0, 32)
  const payload = { to, subject, text, messageId }
  return enqueue(tx, MAIL, { organizationId, payload, dueAtMs, uniqueKey: messageId })
}

/** A mail that waits, or was given up. */
export interface WaitingMail {
  readonly id: string
  readonly subject: string
  /** When the next attempt is due, or was the last one, in milliseconds since the epoch. */
  readonly dueAtMs: number
}

/** Lists at most `atMost` mails to these addresses (in lower case) that were not sent, in the order of their ids, after `afterId`. */
export async function listMailsTo(
  database: Queryable,
  addresses: readonly string[],
  afterId: string | null,
  atMost: number,
): Promise<WaitingMail[]> {
  const found = await selectJobsWith(database, { kind: MAIL.name, field: 'to', values: addresses }, afterId, atMost)
  return found.map(({ id, payload, dueAtMs }) => {
    const read = MailPayload.safeParse(payload)
    return { id, subject: read.success ? read.data.subject : '', dueAtMs }
  })
}

/** Drops the mails to these addresses that were not sent. One that is on its way may still arrive. */
export async function dropMailsTo(tx: Transaction, addresses: readonly string[]): Promise<void> {
  await dropJobs(tx, MAIL, 'to', addresses)
}

/** Returns how mails are sent. It takes no notice of its signal: nobody knows whether a mail that is broken off arrives. */
export function mailHandler(mailTransport: MailTransport, clock: Clock): JobHandler {
  return jobHandler(MAIL, {
    atOnce: SENDING_AT_ONCE,
    timeoutMs: TIMEOUT_MS,
    retryMs: MAIL_RETRIES_MS,
    advice: 'check the settings under "smtp"',
    handle: ({ payload: { to, subject, text, messageId } }) =>
      sendMail(mailTransport, { to, subject, text, id: messageId, dateMs: clock.now() }),
  })
}

/** Sends a mail for a job. The reason of a failure has its codes, and no words of the mail server. */
export async function sendMail(mailTransport: Pick<MailTransport, 'send'>, mail: Mail): Promise<JobResult> {
  try {
    await mailTransport.send(mail)
    return JOB_DONE
  } catch (error) {
    return { kind: 'failed', reason: `the mail could not be sent: ${kindOf(error)}` }
  }
}

/** The kind of a failure; never the server's words, which quote addresses. */
function kindOf(error: unknown): string {
  const { code, responseCode } = (error ?? {}) as { code?: unknown; responseCode?: unknown }
  return [code, responseCode].filter((part) => part !== undefined).join(' ') || 'unknown'
}
