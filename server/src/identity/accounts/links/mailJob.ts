/** The job that mails a link. It names the link's place; the secret is drawn when the mail is sent, and is stored nowhere. */

import { hash } from 'node:crypto'
import { z } from 'zod'
import type { Transaction } from '../../../infra/postgres/database.ts'
import { dropJobs, dropJobsOf } from '../../../jobs/drop.ts'
import { enqueue } from '../../../jobs/enqueue.ts'
import type { JobKind } from '../../../jobs/job.ts'
import { uuidOfHex } from '../../../lib/ids.ts'

const linkPayload = z.discriminatedUnion('purpose', [
  z.strictObject({
    purpose: z.literal('reset'),
    /** In lower case. Whether somebody has it is looked up when the mail is sent, not while somebody waits for an answer. */
    email: z.string(),
    /** A password that was set later leaves nothing to send. */
    askedAtMs: z.number().int(),
  }),
  z.strictObject({ purpose: z.literal('invitation'), invitationId: z.uuid() }),
  z.strictObject({
    purpose: z.literal('address'),
    userId: z.uuid(),
    email: z.string(),
    passwordSetAtMs: z.number().int().nullable(),
  }),
  z.strictObject({ purpose: z.literal('registration'), email: z.string() }),
])

/** The place that the link of a mail leads to. */
export type LinkPayload = z.infer<typeof linkPayload>

export const LINK_MAIL: JobKind<LinkPayload> = { name: 'account link', payload: linkPayload }

/** Enqueues the mail in the caller's transaction. `turn`: the organization or the person whose turn it takes. */
export function enqueueLinkMail(tx: Transaction, turn: string, payload: LinkPayload, nowMs: number): Promise<boolean> {
  return enqueue(tx, LINK_MAIL, { organizationId: turn, payload, dueAtMs: nowMs })
}

/** Returns the turn of the mails to an address, known or not: no address keeps another waiting. */
export function turnOfAddress(email: string): string {
  return uuidOfHex(hash('sha256', `turn of ${email}`).slice(0, 32))
}

/** Drops the mails with links to a person that were not sent: by the person's id (null: none), to these addresses, and of these invitations. */
export async function dropLinkMails(
  tx: Transaction,
  {
    userId,
    addresses,
    invitationIds,
  }: {
    readonly userId: string | null
    readonly addresses: readonly string[]
    readonly invitationIds: readonly string[]
  },
): Promise<void> {
  await dropJobs(tx, LINK_MAIL, 'userId', userId === null ? [] : [userId])
  await dropJobs(tx, LINK_MAIL, 'email', addresses)
  for (const address of addresses) await dropJobsOf(tx, turnOfAddress(address))
  await dropJobs(tx, LINK_MAIL, 'invitationId', invitationIds)
}
