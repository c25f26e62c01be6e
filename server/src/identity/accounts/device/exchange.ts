import type { Database } from '../../../infra/postgres/database.ts'
import { Refused, refusal } from '../../../lib/errors.ts'
import type { RandomBytes } from '../../../lib/ids.ts'
import type { Clock } from '../../../lib/time.ts'
import { inTransaction } from '../../audit/inTransaction.ts'
import type { CreatedKey } from '../../keys/create.ts'
import { createKeyWithin } from '../../keys/manage.ts'
import { parseScopes } from '../../keys/scopes.ts'
import { hashOfSecret } from '../secrets/token.ts'
import { DEVICE_KEY_MS } from './deviceLogin.ts'
import { deleteApproved, type PolledLogin, updatePolled } from './store.ts'

export interface ExchangeDependencies {
  readonly database: Database
  readonly clock: Clock
  readonly random: RandomBytes
}

/** The answer to a program that asks for its key. `expired`: the code is unknown, too, or was used. */
export type DeviceExchange =
  | { readonly kind: 'pending' | 'too_soon' | 'denied' | 'expired' }
  | { readonly kind: 'approved'; readonly key: CreatedKey }

const USED = refusal('not_found', 'This code does not work any more.')

/**
 * Gives a program its key once its login is approved, for one time. The key is made now, by the rights that the member has now:
 * it is stored nowhere in between, and one who was removed meanwhile, or has lost a role, gives none.
 */
export async function exchangeDeviceCode(
  dependencies: ExchangeDependencies,
  deviceCode: string,
  address: string,
): Promise<DeviceExchange> {
  const { database, clock } = dependencies
  const login = await updatePolled(database, hashOfSecret(deviceCode), clock.now())
  if (login === null) return { kind: 'expired' }
  switch (login.state) {
    case 'approved':
      return makeKey(dependencies, login, address)
    case 'denied':
      return { kind: 'denied' }
    default:
      return { kind: login.is_too_soon ? 'too_soon' : 'pending' }
  }
}

async function makeKey(
  { database, clock, random }: ExchangeDependencies,
  login: PolledLogin,
  address: string,
): Promise<DeviceExchange> {
  const { id, name, admin, member_id: memberId, organization_id: organizationId, user_id: userId } = login
  const scopes = parseScopes(login.scopes)
  // The person was erased between the approval and now.
  if (memberId !== null && userId === null) return { kind: 'denied' }
  if (!scopes.ok || memberId === null || organizationId === null || userId === null)
    throw new Error(`the device login ${id} was approved without a member or scopes`)
  const caller = { organizationId, memberId, isAdmin: false, actor: { kind: 'user', id: userId, address } } as const
  const expiresAtMs = clock.now() + DEVICE_KEY_MS
  const made = await inTransaction(database, organizationId, async (tx) => {
    // The member is locked before the login, as by everything else that holds both.
    const key = await createKeyWithin(tx, { clock, random }, caller, {
      name,
      memberId,
      scopes: scopes.value,
      admin,
      expiresAtMs,
    })
    if (!(await deleteApproved(tx, id, clock.now()))) throw new Refused(USED)
    return key
  })
  if (made.ok) return { kind: 'approved', key: made.value }
  // Too many changes of the organization wait: the program asks again, and the login is still approved.
  if (made.refusal.code === 'rate_limit_exceeded') return { kind: 'too_soon' }
  return { kind: made.refusal === USED ? 'expired' : 'denied' }
}
