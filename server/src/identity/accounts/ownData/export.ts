/** Writes everything that is stored of a person as one JSON text, piece by piece: a page of one list is in memory at a time. */

import type { Queryable } from '../../../infra/postgres/database.ts'
import { listMailsTo } from '../../../jobs/mail.ts'
import { type Clock, toTimestamp } from '../../../lib/time.ts'
import type { OwnAuditEntry } from '../../audit/entry.ts'
import { listChangesOfPerson } from '../../audit/ofPerson.ts'
import { keyStateAt, type ListedKey } from '../../keys/key.ts'
import { listKeysOfPerson } from '../../keys/ofPerson.ts'
import { listNotifying } from '../../organizations/forgetAddress.ts'
import { listOwnLogins } from '../device/ofPerson.ts'
import { listStoredIdentities } from '../identityProviders/link.ts'
import { invitationStateAt, type NamedInvitation } from '../invitations/invitation.ts'
import { listInvitationsBy, listInvitationsTo } from '../invitations/ofPerson.ts'
import { listLinksOf } from '../links/link.ts'
import { listOwnMemberships } from '../members/ofPerson.ts'
import { listPasskeys } from '../passkeys/own.ts'
import { findPersonDetails } from '../people/find.ts'
import type { PersonDetails } from '../people/person.ts'
import { listSessions } from '../sessions/own.ts'
import type { FoundSession, ListedSession } from '../sessions/session.ts'
import { addressesOf } from './erase.ts'
import type { OwnData, OwnList } from './wire.ts'

/** Rows of a page: the most that is in memory of an export. A row has a few hundred bytes, at most some 5 KB. */
export const EXPORT_ROWS = 500

/** Links to a person: one of each purpose. */
const LINKS_MOST = 100

export interface ExportOwnDependencies {
  readonly database: Queryable
  readonly clock: Clock
}

interface Section {
  readonly name: OwnList
  pages(): AsyncGenerator<readonly object[]>
}

/** Returns a list of the file: `find` finds its first rows behind a row, or from the beginning. */
function section<Name extends OwnList, Found>(
  name: Name,
  find: (last: Found | null) => Promise<readonly Found[]>,
  toWire: (found: Found) => OwnData[Name][number],
): Section {
  return {
    name,
    async *pages() {
      let last: Found | null = null
      for (;;) {
        const found: readonly Found[] = await find(last)
        if (found.length > 0) yield found.map(toWire)
        last = found.at(-1) ?? null
        if (found.length < EXPORT_ROWS) return
      }
    },
  }
}

/** Finds rows by the id of the last one. */
function byId<Found extends { readonly id: string }>(
  find: (afterId: string | null) => Promise<readonly Found[]>,
): (last: Found | null) => Promise<readonly Found[]> {
  return (last) => find(last === null ? null : last.id)
}

/** A list that is short: it has one page. */
function shortSection<Name extends OwnList, Found>(
  name: Name,
  find: () => Promise<readonly Found[]>,
  toWire: (found: Found) => OwnData[Name][number],
): Section {
  return {
    name,
    async *pages() {
      yield (await find()).map(toWire)
    },
  }
}

/**
 * Writes all that is stored of the person of a session. Throws where the person is gone, or `isStillAllowed` says no between two
 * pages: the text is not whole then.
 */
export async function* writeOwnData(
  dependencies: ExportOwnDependencies,
  { id: sessionId, person: { id } }: Pick<FoundSession, 'id' | 'person'>,
  isStillAllowed: () => Promise<boolean>,
): AsyncGenerator<string, void> {
  const { database, clock } = dependencies
  const person = await findPersonDetails(database, id)
  if (person === null) throw new Error('the person is gone')
  const head = { exported_at: toTimestamp(clock.now()), user: userToWire(person) }
  yield JSON.stringify(head).slice(0, -1)
  const addresses = await addressesOf(database, person)
  const sections = [
    ...sectionsOfEntry(dependencies, id, sessionId, addresses),
    ...sectionsOfOrganizations(dependencies, id, addresses),
  ]
  for (const { name, pages } of sections) {
    yield `,\n"${name}":[`
    let isFirst = true
    for await (const rows of pages()) {
      if (!(await isStillAllowed())) throw new Error('the session has ended')
      if (rows.length === 0) continue
      yield `${isFirst ? '' : ','}\n${rows.map((row) => JSON.stringify(row)).join(',\n')}`
      isFirst = false
    }
    yield ']'
  }
  yield '}\n'
}

/** Returns how the person signs in, and what is on its way to the person. */
function sectionsOfEntry(
  { database, clock }: ExportOwnDependencies,
  id: string,
  sessionId: string,
  addresses: readonly string[],
): Section[] {
  return [
    section(
      'sessions',
      (last: ListedSession | null) => listSessions({ database, clock }, id, last, EXPORT_ROWS),
      (each) => ({
        id: each.id,
        current: each.id === sessionId,
        created_at: toTimestamp(each.createdAtMs),
        expires_at: toTimestamp(each.expiresAtMs),
        address: each.address,
        user_agent: each.userAgent || null,
      }),
    ),
    shortSection(
      'passkeys',
      () => listPasskeys(database, id),
      (each) => ({ id: each.id, name: each.name, ...usedToWire(each) }),
    ),
    section(
      'linked_identities',
      byId((afterId) => listStoredIdentities(database, id, afterId, EXPORT_ROWS)),
      (each) => ({ id: each.id, issuer: each.issuer, subject: each.subject, ...usedToWire(each) }),
    ),
    section(
      'device_logins',
      byId((afterId) => listOwnLogins(database, id, afterId, EXPORT_ROWS)),
      (each) => ({
        id: each.id,
        member_id: each.memberId,
        name: each.name,
        address: each.address,
        scope: each.scopes,
        state: each.state,
        ...lifeToWire(each),
      }),
    ),
    shortSection(
      'links',
      () => listLinksOf(database, id, addresses, LINKS_MOST),
      (each) => ({ purpose: each.purpose, email: each.email, ...lifeToWire(each) }),
    ),
    section(
      'waiting_mails',
      byId((afterId) => listMailsTo(database, addresses, afterId, EXPORT_ROWS)),
      (each) => ({ id: each.id, subject: each.subject, due_at: toTimestamp(each.dueAtMs) }),
    ),
  ]
}

/** The person's places in organizations, and what the person did there. */
function sectionsOfOrganizations(
  { database, clock }: ExportOwnDependencies,
  id: string,
  addresses: readonly string[],
): Section[] {
  const nowMs = clock.now()
  return [
    section(
      'memberships',
      byId((afterId) => listOwnMemberships(database, id, afterId, EXPORT_ROWS)),
      (each) => ({
        id: each.id,
        organization_id: each.organizationId,
        organization_name: each.organizationName,
        role: each.role,
        created_at: toTimestamp(each.createdAtMs),
        removed_at: instantOrNull(each.removedAtMs),
      }),
    ),
    section(
      'api_keys',
      byId((afterId) => listKeysOfPerson(database, id, afterId, EXPORT_ROWS)),
      (each) => keyToWire(each, nowMs),
    ),
    section(
      'invitations_received',
      byId((afterId) => listInvitationsTo(database, { userId: id, emails: addresses }, afterId, EXPORT_ROWS)),
      (each) => invitationToWire(each, nowMs),
    ),
    section(
      'invitations_sent',
      byId((afterId) => listInvitationsBy(database, id, afterId, EXPORT_ROWS)),
      (each) => invitationToWire(each, nowMs),
    ),
    section(
      'notices_of_organizations',
      byId((afterId) => listNotifying(database, addresses, afterId, EXPORT_ROWS)),
      (each) => ({ id: each.id, name: each.name }),
    ),
    section(
      'audit_entries',
      byId((afterId) => listChangesOfPerson(database, { userId: id, addresses }, afterId, EXPORT_ROWS)),
      changeToWire,
    ),
  ]
}

function instantOrNull(epochMs: number | null): string | null {
  return epochMs === null ? null : toTimestamp(epochMs)
}

function usedToWire({ createdAtMs, lastUsedAtMs }: { createdAtMs: number; lastUsedAtMs: number | null }) {
  return { created_at: toTimestamp(createdAtMs), last_used_at: instantOrNull(lastUsedAtMs) }
}

function lifeToWire({ createdAtMs, expiresAtMs }: { createdAtMs: number; expiresAtMs: number }) {
  return { created_at: toTimestamp(createdAtMs), expires_at: toTimestamp(expiresAtMs) }
}

function userToWire(person: PersonDetails): OwnData['user'] {
  return {
    id: person.id,
    name: person.name,
    email: person.email,
    email_verified: person.isEmailVerified,
    operator: person.isOperator,
    created_at: toTimestamp(person.createdAtMs),
    updated_at: toTimestamp(person.updatedAtMs),
    password_set_at: instantOrNull(person.passwordSetAtMs),
  }
}

function keyToWire(key: ListedKey, nowMs: number): OwnData['api_keys'][number] {
  return {
    id: key.id,
    organization_id: key.organizationId,
    member_id: key.memberId,
    name: key.name,
    scope: key.scopes,
    admin: key.admin,
    state: keyStateAt(key, nowMs),
    expires_at: instantOrNull(key.expiresAtMs),
    revoked_at: instantOrNull(key.revokedAtMs),
    ...usedToWire(key),
  }
}

function invitationToWire(each: NamedInvitation, nowMs: number): OwnData['invitations_sent'][number] {
  return {
    id: each.id,
    organization_id: each.organizationId,
    organization_name: each.organizationName,
    email: each.email,
    role: each.role,
    state: invitationStateAt(each, nowMs),
    ...lifeToWire(each),
  }
}

/** Returns an audit entry for its person's export. Other people who acted stay unnamed, and so do their addresses. */
function changeToWire(entry: OwnAuditEntry): OwnData['audit_entries'][number] {
  const { kind, id, address } = entry.actor
  return {
    id: entry.id,
    created_at: toTimestamp(entry.createdAtMs),
    organization_id: entry.organizationId,
    action: entry.action,
    own: entry.isOwn,
    actor: entry.isOwn ? { kind, id, address } : { kind, id: null, address: null },
    subject_id: entry.subjectId,
    before: entry.before && { ...entry.before },
    after: entry.after && { ...entry.after },
  }
}
