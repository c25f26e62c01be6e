/** The end of a mail address that nobody has an account with, such as that of somebody who was invited and never joined. */

import { dropMailsTo } from '../../../jobs/mail.ts'
import { Refused, refusal } from '../../../lib/errors.ts'
import type { Result } from '../../../lib/result.ts'
import type { Actor } from '../../audit/entry.ts'
import { inTransaction } from '../../audit/inTransaction.ts'
import { redactChanges } from '../../audit/ofPerson.ts'
import { recordAuditEntry } from '../../audit/record.ts'
import { forgetNotifyAddresses, lockOrganizationsOf } from '../../organizations/forgetAddress.ts'
import { removeInvitationsTo } from '../invitations/ofPerson.ts'
import { endLinksOf } from '../links/link.ts'
import { dropLinkMails } from '../links/mailJob.ts'
import { findPersonByEmail } from '../people/find.ts'
import type { EraseDependencies } from './erase.ts'

/** The numbers of things that had the address. */
export interface ErasedAddress {
  readonly invitations: number
  /** Entries of the audit log. */
  readonly entries: number
  /** Organizations that told the address of their limits. */
  readonly organizations: number
}

const NOWHERE = refusal(
  'not_found',
  'Nobody has an account with the address, and no invitation and no entry of the audit log has it. Check the address.',
)
const JOINED = refusal(
  'validation_failed',
  'Somebody has made an account with the address at this moment, so nothing was erased. Look at it, then try again.',
)

/**
 * Erases a mail address (in lower case) that nobody has an account with. Refused (`validation_failed`) where somebody has one meanwhile;
 * `not_found` where nothing has the address. Locks are taken in the order of `erasePerson`.
 */
export function eraseAddress(
  { database, clock, random }: Omit<EraseDependencies, 'tellErased'>,
  { email, actor }: { readonly email: string; readonly actor: Actor },
): Promise<Result<ErasedAddress>> {
  const addresses = [email]
  const nobody = { userId: null, addresses }
  return inTransaction(database, null, async (tx) => {
    const nowMs = clock.now()
    const before = await redactChanges(tx, nobody, null)
    await lockOrganizationsOf(tx, null, addresses)
    await endLinksOf(tx, null, addresses)
    const invitationIds = await removeInvitationsTo(tx, addresses)
    const organizations = await forgetNotifyAddresses(tx, random, nowMs, { addresses, actor })
    await dropMailsTo(tx, addresses)
    await dropLinkMails(tx, { ...nobody, invitationIds })
    const entries = before + (await redactChanges(tx, nobody, nowMs))
    if ((await findPersonByEmail(tx, email)) !== null) throw new Refused(JOINED)
    const erased = { invitations: invitationIds.length, entries, organizations }
    if (Object.values(erased).every((count) => count === 0)) throw new Refused(NOWHERE)
    const entry = { organizationId: null, actor, action: 'address.erased', subjectId: null }
    await recordAuditEntry(tx, random, nowMs, { ...entry, before: null, after: null })
    return erased
  })
}
