import type { Queryable, Transaction } from '../../../infra/postgres/database.ts'
import { refusal } from '../../../lib/errors.ts'
import type { RandomBytes } from '../../../lib/ids.ts'
import { Secret } from '../../../lib/secret.ts'
import { type Clock, DAY_MS, HOUR_MS, MINUTE_MS } from '../../../lib/time.ts'
import { drawSecret, hashOfSecret } from '../secrets/token.ts'
import {
  deleteExpiredLinks,
  deleteLink,
  deleteLinks,
  deleteLinksOf,
  type LinkRow,
  replaceLink,
  selectLink,
  selectLinksOf,
} from './store.ts'
import type { GivenLink, LinkTarget } from './target.ts'

/** How long a link works. */
export const LINK_MS: Readonly<Record<LinkTarget['purpose'], number>> = {
  set_up: DAY_MS,
  reset: 30 * MINUTE_MS,
  invitation: 7 * DAY_MS,
  address: HOUR_MS,
  registration: HOUR_MS,
}

export const NO_LINK = refusal(
  'not_found',
  'This link does not work: it was used, has expired, or a newer one was made. Ask for a new one.',
)

export interface LinkDependencies {
  readonly clock: Clock
  readonly random: RandomBytes
}

/** Makes the secret of a link. Older links to the same place work no more. */
export async function makeLink(
  tx: Transaction,
  { clock, random }: LinkDependencies,
  target: LinkTarget,
): Promise<Secret> {
  const secret = drawSecret(random)
  const nowMs = clock.now()
  await replaceLink(tx, hashOfSecret(secret), target, nowMs, nowMs + LINK_MS[target.purpose])
  return new Secret(secret)
}

/** Returns where a link leads, without using it; null when it does not work. */
export function readLink(
  database: Queryable,
  clock: Clock,
  secret: string,
  purpose: LinkTarget['purpose'],
): Promise<LinkRow | null> {
  return selectLink(database, hashOfSecret(secret), purpose, clock.now())
}

/** Uses a link up, in the transaction of what it is for; null when it does not work, or works no more. */
export function takeLink(
  tx: Transaction,
  clock: Clock,
  secret: string,
  purpose: LinkTarget['purpose'],
): Promise<LinkRow | null> {
  return deleteLink(tx, hashOfSecret(secret), purpose, clock.now())
}

/** Ends a person's links to set a new password or to confirm a new address: a change of either leaves none. */
export function endLinks(tx: Transaction, userId: string): Promise<void> {
  return deleteLinks(tx, userId)
}

/** Lists at most `atMost` links that were given to a person, or to these addresses. Nobody can tell their secrets. */
export function listLinksOf(
  database: Queryable,
  userId: string,
  emails: readonly string[],
  atMost: number,
): Promise<GivenLink[]> {
  return selectLinksOf(database, userId, emails, atMost)
}

/** Ends every link of a person who is erased: by the person (null: nobody has an account), to these addresses, and of invitations to them. */
export function endLinksOf(tx: Transaction, userId: string | null, emails: readonly string[]): Promise<void> {
  return deleteLinksOf(tx, userId, emails)
}

/** Removes at most `atMost` links that have expired; returns how many. */
export function sweepLinks(
  { database, clock }: { readonly database: Queryable; readonly clock: Clock },
  atMost: number,
): Promise<number> {
  return deleteExpiredLinks(database, clock.now(), atMost)
}
