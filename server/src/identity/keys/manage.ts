/** Keys as people and admins' keys make, change, rotate and revoke them. Each change is in the audit log. */

import type { Database, Transaction } from '../../infra/postgres/database.ts'
import { Refused, refusal } from '../../lib/errors.ts'
import { isUuid, type RandomBytes } from '../../lib/ids.ts'
import { type Result, refused } from '../../lib/result.ts'
import type { Clock } from '../../lib/time.ts'
import { countChange } from '../audit/budget.ts'
import type { Actor, AuditedFields } from '../audit/entry.ts'
import { inTransaction, type Keep } from '../audit/inTransaction.ts'
import { fieldsThatDiffer } from '../audit/note.ts'
import { recordAuditEntry } from '../audit/record.ts'
import { changeByShell } from '../audit/shell.ts'
import { type CreatedKey, createKey, type NewKey } from './create.ts'
import { type ApiKey, type KeyOwnerFilter, keyStateAt, type ListedKey, type LockedKey } from './key.ts'
import { revokeKey } from './revoke.ts'
import { parseScopes } from './scopes.ts'
import {
  countUsableKeys,
  lockKey,
  lockOwnerOf,
  lockRoleOf,
  revokeKeyById,
  selectKeyPage,
  selectMemberOfKey,
  updateKey,
  updateKeyRotated,
} from './store.ts'

/** Keys of an organization that may be used at once. */
const KEYS_MOST = 20_000

export interface KeyDependencies {
  readonly database: Database
  readonly clock: Clock
  readonly random: RandomBytes
}

/** The caller, as far as keys go. */
export interface KeyCaller {
  readonly organizationId: string
  readonly actor: Actor
  /** The member that is signed in; null: a key. */
  readonly memberId: string | null
  /** True when the caller has an admin's rights: it sees and changes the keys of everybody, and makes admins' keys. */
  readonly isAdmin: boolean
}

const NO_KEY = refusal('not_found', 'There is no such key; GET /manage/v1/keys lists them.')
const ENDED = refusal('validation_failed', 'This key has expired or was revoked. Make a new one.')
const OF_ANOTHER = refusal(
  'insufficient_scope',
  'This key belongs to another member, who alone may be shown a new one. You may revoke it.',
)
const NO_MEMBER = refusal('insufficient_scope', 'You are no longer a member of this organization.')
const NO_ADMIN = refusal('insufficient_scope', "Only an admin makes an admin's key, or a key of the organization.")
const TOO_MANY = refusal(
  'validation_failed',
  `The organization has ${KEYS_MOST} keys, the most that one may have. Revoke one first.`,
)

/** The keys that a caller sees: a member those of its own, an admin all. */
function seenBy({ organizationId, memberId, isAdmin }: KeyCaller): KeyOwnerFilter {
  return { organizationId, memberId: isAdmin ? null : memberId }
}

/** Returns the caller with the rights of now. Refuses a member who was removed meanwhile. */
async function callerNow(tx: Transaction, caller: KeyCaller): Promise<KeyCaller> {
  if (caller.memberId === null) return caller
  const role = await lockRoleOf(tx, caller.memberId)
  if (role === undefined) throw new Refused(NO_MEMBER)
  return { ...caller, isAdmin: role !== 'member' }
}

/** Lists at most `atMost` keys that the caller sees, before the id `beforeId`, the newest first. */
export function listKeysFor(
  database: Database,
  caller: KeyCaller,
  beforeId: string | null,
  atMost: number,
): Promise<ListedKey[]> {
  return selectKeyPage(database, seenBy(caller), beforeId, atMost)
}

/** Makes a key. Refused where the caller's rights do not cover it, and beyond the organization's budget of changes (K7). */
export function createKeyFor(
  { database, clock, random }: KeyDependencies,
  caller: KeyCaller,
  wanted: Omit<NewKey, 'organizationId'>,
  keep: Keep<CreatedKey>,
): Promise<Result<CreatedKey>> {
  return inTransaction(
    database,
    caller.organizationId,
    (tx) =>
      createCountedKey(tx, { clock, random }, caller, wanted, () =>
        countChange(tx, caller.organizationId, clock.now()),
      ),
    keep,
  )
}

/**
 * The same within a transaction of the caller's, who has counted it. Throws {@link Refused} where the rights that the caller has
 * now do not cover it.
 */
export function createKeyWithin(
  tx: Transaction,
  dependencies: Omit<KeyDependencies, 'database'>,
  caller: KeyCaller,
  wanted: Omit<NewKey, 'organizationId'>,
): Promise<CreatedKey> {
  return createCountedKey(tx, dependencies, caller, wanted, async () => {})
}

/** `count` counts the change. It comes before the entry, so that the caller's key is looked at when nothing is waited for any more. */
async function createCountedKey(
  tx: Transaction,
  { clock, random }: Omit<KeyDependencies, 'database'>,
  caller: KeyCaller,
  wanted: Omit<NewKey, 'organizationId'>,
  count: () => Promise<void>,
): Promise<CreatedKey> {
  const { organizationId } = caller
  // The organization is locked before its members, as by an invitation: in another order they could wait for each other.
  if ((await countUsableKeys(tx, organizationId, clock.now())) >= KEYS_MOST) throw new Refused(TOO_MANY)
  const { isAdmin, memberId } = await callerNow(tx, caller)
  if (!isAdmin && (wanted.admin || wanted.memberId !== memberId)) throw new Refused(NO_ADMIN)
  const made = await createKey({ database: tx, clock, randomBytes: random }, { ...wanted, organizationId })
  await count()
  await record(tx, { clock, random }, caller, 'key.created', made.record.id, null, fieldsOf(made.record))
  return made
}

/**
 * Changes the name or the expiry of a key; what is undefined stays. Refused (`not_found`) for keys that the caller does not see, and beyond
 * the organization's budget of changes (K7).
 */
export function changeKey(
  { database, clock, random }: KeyDependencies,
  caller: KeyCaller,
  id: string,
  wanted: { readonly name?: string | undefined; readonly expiresAtMs?: number | undefined },
  keep: Keep<ApiKey>,
): Promise<Result<ApiKey>> {
  if (!isUuid(id)) return Promise.resolve(refused(NO_KEY))
  return inTransaction(
    database,
    caller.organizationId,
    async (tx) => {
      const before = await lockUsable(tx, clock, caller, id)
      const { name = before.name, expiresAtMs = before.expiresAtMs } = wanted
      const after = { ...before, name, expiresAtMs }
      await updateKey(tx, id, name, wanted.expiresAtMs ?? null)
      // An expiry that stays as it is still ends the overlap of a rotation, once.
      if (fieldsThatDiffer(fieldsOf(before), fieldsOf(after)) === null) return after
      await countChange(tx, caller.organizationId, clock.now())
      await record(tx, { clock, random }, caller, 'key.changed', id, fieldsOf(before), fieldsOf(after))
      return after
    },
    keep,
  )
}

/**
 * Makes a key with the rights, the owner, the name and the expiry of another, which expires after `overlapMs` at the latest. Somebody who
 * has lost the answer rotates the key again while the overlap lasts. That key gets the expiry from before the first rotation too.
 * Refused as {@link changeKey}, and for the key of another member.
 */
export function rotateKey(
  { database, clock, random }: KeyDependencies,
  caller: KeyCaller,
  id: string,
  overlapMs: number,
  keep: Keep<CreatedKey>,
): Promise<Result<CreatedKey>> {
  if (!isUuid(id)) return Promise.resolve(refused(NO_KEY))
  return inTransaction(
    database,
    caller.organizationId,
    async (tx) => {
      // Locked in the order of a removal: the organization, the key's owner, the key. In another one they would wait for each other.
      if ((await countUsableKeys(tx, caller.organizationId, clock.now())) >= KEYS_MOST) throw new Refused(TOO_MANY)
      await lockOwnerOf(tx, id)
      const old = await lockUsable(tx, clock, caller, id)
      if (old.memberId !== null && old.memberId !== (await memberOf(tx, caller))) throw new Refused(OF_ANOTHER)
      const scopes = parseScopes(old.scopes)
      if (!scopes.ok) throw new Error(`the key ${id} has scopes that are none`)
      const endsAtMs = Math.min(old.expiresAtMs ?? Number.POSITIVE_INFINITY, clock.now() + overlapMs)
      const { organizationId, memberId, name, admin, ownExpiresAtMs: expiresAtMs } = old
      const made = await createKey(
        { database: tx, clock, randomBytes: random },
        { organizationId, memberId, name: name ?? undefined, scopes: scopes.value, admin, expiresAtMs },
      )
      await countChange(tx, organizationId, clock.now())
      const after = { ...fieldsOf({ ...old, expiresAtMs: endsAtMs }), rotated_to: made.record.id }
      // Before it may end: it may be the key that asks.
      await record(tx, { clock, random }, caller, 'key.rotated', id, fieldsOf(old), after)
      await updateKeyRotated(tx, id, endsAtMs, clock.now())
      return made
    },
    keep,
  )
}

/** Revokes a key for good, in every process as it commits. Refused (`not_found`) for keys that the caller does not see. */
export function revokeKeyFor(
  { database, clock, random }: KeyDependencies,
  caller: KeyCaller,
  id: string,
  keep: Keep<ApiKey>,
): Promise<Result<ApiKey>> {
  if (!isUuid(id)) return Promise.resolve(refused(NO_KEY))
  return inTransaction(
    database,
    caller.organizationId,
    async (tx) => {
      const before = await lockKey(tx, seenBy(await callerNow(tx, caller)), id)
      if (before === undefined) throw new Refused(NO_KEY)
      // Before it ends: it may be the key that asks.
      if (before.revokedAtMs === null)
        await record(tx, { clock, random }, caller, 'key.revoked', id, fieldsOf(before), null)
      const revoked = await revokeKeyById(tx, id, clock.now())
      if (revoked === undefined) throw new Refused(NO_KEY)
      return revoked
    },
    keep,
  )
}

/** Revokes any key for good, for an operator with a shell. Refused (`not_found`) where there is none of this id. */
export function revokeKeyByShell({ database, clock, random }: KeyDependencies, id: string): Promise<Result<ApiKey>> {
  return changeByShell({ database, clock, random }, async (tx, note) => {
    const nowMs = clock.now()
    const revoked = await revokeKey({ database: tx, clock: { now: () => nowMs } }, id)
    if (!revoked.ok) throw new Refused(revoked.refusal)
    const { organizationId, revokedAtMs } = revoked.value
    const entry = { organizationId, action: 'key.revoked', subjectId: id, before: fieldsOf(revoked.value), after: null }
    // A key that was revoked before keeps the instant.
    if (revokedAtMs === nowMs) await note(entry)
    return revoked.value
  })
}

/** The member that acts, by itself or by its own key; null: a key of the organization. */
async function memberOf(tx: Transaction, { memberId, actor }: KeyCaller): Promise<string | null> {
  return memberId ?? (actor.id === null ? null : await selectMemberOfKey(tx, actor.id))
}

async function lockUsable(tx: Transaction, clock: Clock, caller: KeyCaller, id: string): Promise<LockedKey> {
  const key = await lockKey(tx, seenBy(await callerNow(tx, caller)), id)
  if (key === undefined) throw new Refused(NO_KEY)
  if (keyStateAt(key, clock.now()) !== 'active') throw new Refused(ENDED)
  return key
}

function record(
  tx: Transaction,
  { clock, random }: Pick<KeyDependencies, 'clock' | 'random'>,
  { organizationId, actor }: KeyCaller,
  action: string,
  subjectId: string,
  before: AuditedFields | null,
  after: AuditedFields | null,
): Promise<void> {
  return recordAuditEntry(tx, random, clock.now(), { organizationId, actor, action, subjectId, before, after })
}

/** The fields of a key that its log tells of. */
function fieldsOf({ name, scopes, admin, memberId, expiresAtMs }: ApiKey): AuditedFields {
  return {
    name,
    scope: scopes,
    admin,
    member_id: memberId,
    expires_at: expiresAtMs === null ? null : new Date(expiresAtMs).toISOString(),
  }
}
