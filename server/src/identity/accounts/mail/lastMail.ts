/** The last mail to somebody who was erased. Its address is in its job alone, which is emptied once the mail is sent or given up. */

import { z } from 'zod'
import type { Transaction } from '../../../infra/postgres/database.ts'
import { enqueue } from '../../../jobs/enqueue.ts'
import { type JobHandler, jobHandler } from '../../../jobs/handler.ts'
import type { JobKind } from '../../../jobs/job.ts'
import { MAIL_RETRIES_MS, sendMail } from '../../../jobs/mail.ts'
import { type RandomBytes, toHex, uuidV7 } from '../../../lib/ids.ts'
import type { MailTransport } from '../../../lib/mail.ts'
import { type Clock, MINUTE_MS, toTimestamp } from '../../../lib/time.ts'

const lastMailPayload = z.strictObject({
  to: z.string().min(1).max(320),
  erasedAtMs: z.number().int(),
  /** The left part of the Message-ID: the same for every attempt. It follows from nothing. */
  messageId: z.string().regex(/^[0-9a-f]{32}$/),
})

const LAST_MAIL: JobKind<z.infer<typeof lastMailPayload>> = { name: 'last mail', payload: lastMailPayload }

const SENDING_AT_ONCE = 4
const TIMEOUT_MS = 2 * MINUTE_MS

/** Enqueues the mail in the transaction that erases the person. It takes a turn of its own. */
export async function enqueueLastMail(
  tx: Transaction,
  random: RandomBytes,
  to: string,
  erasedAtMs: number,
): Promise<void> {
  const payload = { to, erasedAtMs, messageId: toHex(random(16)) }
  await enqueue(tx, LAST_MAIL, { organizationId: uuidV7(erasedAtMs, random), payload, dueAtMs: erasedAtMs })
}

/** Returns how these mails are sent. Without a mail server they are given up, so that none keeps its address. */
export function lastMailHandler({
  mailTransport,
  clock,
}: {
  readonly mailTransport: Pick<MailTransport, 'send'> | null
  readonly clock: Clock
}): JobHandler {
  return jobHandler(LAST_MAIL, {
    atOnce: SENDING_AT_ONCE,
    timeoutMs: TIMEOUT_MS,
    retryMs: MAIL_RETRIES_MS,
    advice: 'somebody who was erased is not told; check the settings under "smtp"',
    isEmptiedWhenDead: true,
    async handle({ payload: { to, erasedAtMs, messageId } }) {
      if (mailTransport === null) return { kind: 'failed', reason: 'there is no mail server', isFinal: true }
      const text = `The account with this address was erased at ${toTimestamp(erasedAtMs)}. Its sessions and API keys have ended.\n\nThis is the last mail about it: the address is stored no more. If it was not you, tell the operator of this server.\n`
      const subject = 'Your account was erased'
      return sendMail(mailTransport, { to, subject, text, id: messageId, dateMs: clock.now() })
    },
  })
}
