/** A person claims a login by its code, and then approves or denies it, all by one session. */

import type { Database, Queryable } from '../../../infra/postgres/database.ts'
import { Refused, refusal } from '../../../lib/errors.ts'
import { isUuid, type RandomBytes } from '../../../lib/ids.ts'
import type { Result } from '../../../lib/result.ts'
import type { Clock } from '../../../lib/time.ts'
import { countChange } from '../../audit/budget.ts'
import type { Actor } from '../../audit/entry.ts'
import { inTransaction } from '../../audit/inTransaction.ts'
import { recordAuditEntry } from '../../audit/record.ts'
import { parseScopes, printScopes, type Scopes } from '../../keys/scopes.ts'
import { hashOfSecret } from '../secrets/token.ts'
import type { ClaimedLogin, DeviceClaimant } from './deviceLogin.ts'
import { selectClaimed, updateApproved, updateClaimed, updateDenied } from './store.ts'
import { readUserCode } from './userCode.ts'

export interface DecideDependencies {
  readonly database: Database
  readonly clock: Clock
  readonly random: RandomBytes
}

interface ReadDependencies {
  readonly database: Queryable
  readonly clock: Clock
}

/** The same for codes that are unknown, have expired, were used, or that another session has claimed. */
const NO_LOGIN = refusal('not_found', 'This code does not work. Log in again on the machine to get a new one.')

/** Claims a login for a session; returns its id. Null where the code does not work for this session. */
export async function claimDeviceLogin(
  { database, clock }: ReadDependencies,
  typed: string,
  claimant: DeviceClaimant,
): Promise<string | null> {
  const code = readUserCode(typed)
  return code === null ? null : updateClaimed(database, hashOfSecret(code), claimant, clock.now())
}

/** Returns a login that the session has claimed; null where there is none of this id, which may be any text. */
export async function readClaimedLogin(
  { database, clock }: ReadDependencies,
  id: string,
  claimant: DeviceClaimant,
): Promise<ClaimedLogin | null> {
  const row = isUuid(id) ? await selectClaimed(database, id, claimant, clock.now()) : null
  if (row === null) return null
  const scopes = parseScopes(row.scopes)
  if (!scopes.ok) throw new Error(`the device login ${id} has scopes that are none`)
  return { id: row.id, name: row.name, address: row.address, scopes: scopes.value }
}

/** The person who approves a login. */
export interface DeviceApprover extends DeviceClaimant {
  readonly organizationId: string
  readonly actor: Actor
}

/**
 * Approves a login that the session has claimed: the program gets a key with these rights when it asks next. It counts as one change, and
 * is refused (`rate_limit_exceeded`) beyond the organization's budget (K7); the key that is made of it does not count again.
 */
export function approveDeviceLogin(
  { database, clock, random }: DecideDependencies,
  login: ClaimedLogin,
  approver: DeviceApprover,
  granted: { readonly scopes: Scopes; readonly admin: boolean },
): Promise<Result<null>> {
  return inTransaction(database, approver.organizationId, async (tx) => {
    const [scope, nowMs] = [printScopes(granted.scopes), clock.now()]
    const { id, name, address } = login
    if (!(await updateApproved(tx, id, approver, { scopes: scope, admin: granted.admin }, nowMs)))
      throw new Refused(NO_LOGIN)
    await countChange(tx, approver.organizationId, nowMs)
    await recordAuditEntry(tx, random, nowMs, {
      organizationId: approver.organizationId,
      actor: approver.actor,
      action: 'device_login.approved',
      subjectId: id,
      before: null,
      after: { name, machine_address: address, scope, admin: granted.admin },
    })
    return null
  })
}

/** Denies a login that the session has claimed; false where there is none of this id, which may be any text. */
export async function denyDeviceLogin(
  { database, clock }: ReadDependencies,
  id: string,
  claimant: DeviceClaimant,
): Promise<boolean> {
  return isUuid(id) && updateDenied(database, id, claimant, clock.now())
}
