/** How mails with a link are sent. */

import type { Database, Transaction } from '../../../infra/postgres/database.ts'
import { JOB_DONE, type JobHandler, type JobResult, jobHandler } from '../../../jobs/handler.ts'
import { sendMail } from '../../../jobs/mail.ts'
import { toHex } from '../../../lib/ids.ts'
import type { MailTransport } from '../../../lib/mail.ts'
import { quotedName } from '../../../lib/nameCharacters.ts'
import { MINUTE_MS } from '../../../lib/time.ts'
import { invitationStateAt } from '../invitations/invitation.ts'
import { findInvitation } from '../invitations/list.ts'
import { type LinkDependencies, makeLink } from '../links/link.ts'
import { LINK_MAIL, type LinkPayload } from '../links/mailJob.ts'
import type { LinkTarget } from '../links/target.ts'
import { findPersonByEmail, findPersonById, passwordSetAtMs } from '../people/find.ts'
import { hashOfSecret } from '../secrets/token.ts'

/** A person waits for it: a mail server that is away for longer is told of by the log. */
const RETRIES_MS = [MINUTE_MS, 5 * MINUTE_MS, 15 * MINUTE_MS]
const SENDING_AT_ONCE = 4
const TIMEOUT_MS = 2 * MINUTE_MS

export interface LinkMailDependencies extends LinkDependencies {
  readonly database: Database
  readonly mailTransport: Pick<MailTransport, 'send'>
  /** Of a page beneath `/account`. */
  readonly page: (path: string) => string
}

/** Returns how these mails are sent. Another attempt sends another link; the one before works no more. */
export function linkMailHandler(dependencies: LinkMailDependencies): JobHandler {
  const { clock, mailTransport } = dependencies
  return jobHandler(LINK_MAIL, {
    atOnce: SENDING_AT_ONCE,
    timeoutMs: TIMEOUT_MS,
    retryMs: RETRIES_MS,
    advice: 'check the settings under "smtp"; "tollgate users reset-link EMAIL" makes a link without mail',
    async handle({ payload }): Promise<JobResult> {
      const letter = await letterOf(dependencies, payload)
      // The person or the invitation is gone meanwhile.
      if (letter === null) return JOB_DONE
      return sendMail(mailTransport, { ...letter, dateMs: clock.now() })
    },
  })
}

/** Null: there is nothing to send any more. */
function letterOf(dependencies: LinkMailDependencies, payload: LinkPayload): Promise<Letter | null> {
  switch (payload.purpose) {
    case 'reset':
      return resetLetter(dependencies, payload)
    case 'invitation':
      return invitationLetter(dependencies, payload)
    case 'address':
      return addressLetter(dependencies, payload)
    case 'registration':
      return registrationLetter(dependencies, payload)
  }
}

interface Letter {
  readonly to: string
  readonly subject: string
  readonly text: string
  readonly id: string
}

/** Null where somebody has the address already. The page that asked says nothing of it. */
async function addressLetter(
  dependencies: LinkMailDependencies,
  { userId, email, passwordSetAtMs: setAtMs }: Extract<LinkPayload, { purpose: 'address' }>,
): Promise<Letter | null> {
  const person = await findPersonById(dependencies.database, userId)
  if (person === null || (await findPersonByEmail(dependencies.database, email)) !== null) return null
  const link = await linkTo(
    dependencies,
    { purpose: 'address', userId, email },
    '/address',
    async (tx) => (await passwordSetAtMs(tx, userId)) === setAtMs,
  )
  if (link === null) return null
  return {
    to: email,
    subject: 'Confirm your new mail address',
    text: `Somebody wants to sign in with this address from now on.\n\nIf it was you, sign in and confirm it within an hour here:\n\n${link.url}\n\nIf it was not you, do nothing.\n`,
    id: link.id,
  }
}

/** Somebody who has an account is told so, and gets no link with a secret. */
async function registrationLetter(
  dependencies: LinkMailDependencies,
  { email }: Extract<LinkPayload, { purpose: 'registration' }>,
): Promise<Letter | null> {
  const { database, page, random } = dependencies
  if ((await findPersonByEmail(database, email)) !== null)
    return {
      to: email,
      subject: 'You have an account already',
      text: `Somebody wanted to register with this address. It has an account already.\n\nSign in here:\n\n${page('/sign-in')}\n\nIf you have forgotten your password, set a new one here:\n\n${page('/forgotten')}\n\nIf it was not you, do nothing.\n`,
      id: toHex(random(16)),
    }
  const link = await linkTo(dependencies, { purpose: 'registration', email }, '/register/finish', async () => true)
  if (link === null) return null
  return {
    to: email,
    subject: 'Finish your registration',
    text: `Somebody wants to register with this address.\n\nIf it was you, go on within an hour here:\n\n${link.url}\n\nIf it was not you, do nothing.\n`,
    id: link.id,
  }
}

/** Null where nobody has the address, and where the password was changed since the link was asked for. */
async function resetLetter(
  dependencies: LinkMailDependencies,
  { email, askedAtMs }: Extract<LinkPayload, { purpose: 'reset' }>,
) {
  const person = await findPersonByEmail(dependencies.database, email)
  if (person === null) return null
  const { id: userId } = person
  const link = await linkTo(
    dependencies,
    { purpose: 'reset', userId },
    '/reset',
    async (tx) => ((await passwordSetAtMs(tx, userId)) ?? 0) <= askedAtMs,
  )
  if (link === null) return null
  return {
    to: person.email,
    subject: 'Set a new password',
    text: `Somebody asked for a new password for this address.\n\nSet it within 30 minutes here:\n\n${link.url}\n\nIf it was not you, do nothing: your password stays as it is.\n`,
    id: link.id,
  }
}

async function invitationLetter(
  dependencies: LinkMailDependencies,
  { invitationId }: { readonly invitationId: string },
) {
  const found = await findInvitation(dependencies.database, invitationId)
  if (found === null || invitationStateAt(found.invitation, dependencies.clock.now()) !== 'open') return null
  const { organizationName, inviter } = found
  const { email, role } = found.invitation
  const link = await linkTo(dependencies, { purpose: 'invitation', invitationId }, '/accept', async () => true)
  if (link === null) return null
  const as = role === 'member' ? 'a member' : `an ${role}`
  return {
    to: email,
    subject: `You are invited to ${quotedName(organizationName)}`,
    text: `${inviter === null ? 'An admin' : `${quotedName(inviter.name)} (${inviter.email})`} invites you to become ${as} of the organization ${quotedName(organizationName)} on the Tollgate server ${new URL(link.url).host}.\n\nAccept within 7 days here:\n\n${link.url}\n\nIf you don't want to, or don't know who this is, do nothing.\n`,
    id: link.id,
  }
}

/** Makes a link; `id` names the mail with it, and tells nothing of its secret. Null where it is wanted no more. */
async function linkTo(
  dependencies: LinkMailDependencies,
  target: LinkTarget,
  path: string,
  isWanted: (tx: Transaction) => Promise<boolean>,
) {
  const secret = await dependencies.database.transaction(async (tx) =>
    (await isWanted(tx)) ? makeLink(tx, dependencies, target) : null,
  )
  if (secret === null) return null
  const id = toHex(hashOfSecret(`mail ${secret.reveal()}`)).slice(0, 32)
  return { url: `${dependencies.page(path)}?token=${secret.reveal()}`, id }
}
