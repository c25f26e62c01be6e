import type { Database } from '../../../infra/postgres/database.ts'
import type { Clock } from '../../../lib/time.ts'
import { enqueueLinkMail, turnOfAddress } from '../links/mailJob.ts'
import { parseEmail } from '../people/person.ts'

/**
 * Has a link to set a new password mailed to the person with this address; nothing where there is none. It does the same work for every
 * address, so that the time that it takes tells nobody which are known: a job looks for the person.
 */
export async function requestReset(
  {
    database,
    clock,
    onEnqueued,
  }: { readonly database: Database; readonly clock: Clock; readonly onEnqueued: () => void },
  text: string,
): Promise<void> {
  const email = parseEmail(text)
  if (!email.ok) return
  const askedAtMs = clock.now()
  const payload = { purpose: 'reset', email: email.value, askedAtMs } as const
  await database.transaction((tx) => enqueueLinkMail(tx, turnOfAddress(email.value), payload, askedAtMs))
  onEnqueued()
}
