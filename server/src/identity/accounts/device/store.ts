import type { Queryable, Transaction } from '../../../infra/postgres/database.ts'
import type { DeviceClaimant, OwnDeviceLogin } from './deviceLogin.ts'

/** Every statement on `device_logins`. Codes go in as their hashes. Logins that have expired are found by none but the sweep. */

/** The slowest that a program is asked to become. */
const INTERVAL_SECONDS_MOST = 60
/** RFC 8628: a program that asks too soon waits so much longer from then on. */
const SLOWER_SECONDS = 5
/** Forgives the way of a request, and clocks of processes that differ. */
const FORGIVEN_SECONDS = 1

export interface NewDeviceLogin {
  readonly id: string
  readonly deviceHash: Uint8Array
  readonly userHash: Uint8Array
  readonly name: string
  readonly address: string
  readonly scopes: string
  readonly intervalSeconds: number
  readonly createdAtMs: number
  readonly expiresAtMs: number
}

/** Inserts a login; false where so many are open already. */
export async function insertDeviceLogin(
  database: Queryable,
  login: NewDeviceLogin,
  openMost: number,
): Promise<boolean> {
  const rows = await database.query(
    `insert into device_logins
       (id, device_hash, user_hash, name, address, scopes, state, interval_seconds, created_at, expires_at)
     select $1::uuid, $2::bytea, $3::bytea, $4::text, $5::text, $6::text, 'open', $7::integer, $8::timestamptz, $9::timestamptz
     where (select count(*) from device_logins where expires_at > $8::timestamptz) < $10::integer
     on conflict do nothing returning id`,
    [
      login.id,
      login.deviceHash,
      login.userHash,
      login.name,
      login.address,
      login.scopes,
      login.intervalSeconds,
      new Date(login.createdAtMs),
      new Date(login.expiresAtMs),
      openMost,
    ],
  )
  return rows.length > 0
}

/** Claims the open login with this code; one that the session has claimed before is claimed again. Null where there is none. */
export async function updateClaimed(
  database: Queryable,
  userHash: Uint8Array,
  { sessionId, memberId }: DeviceClaimant,
  nowMs: number,
): Promise<string | null> {
  const rows = await database.query<{ id: string }>(
    `update device_logins set state = 'claimed', session_id = $2, member_id = $3
     where user_hash = $1 and expires_at > $4
       and (state = 'open' or (state = 'claimed' and session_id = $2)) returning id`,
    [userHash, sessionId, memberId, new Date(nowMs)],
  )
  return rows[0]?.id ?? null
}

interface ClaimedRow {
  readonly id: string
  readonly name: string
  readonly address: string
  readonly scopes: string
}

/** The login of this id, if this session has claimed it for this member. */
export async function selectClaimed(
  database: Queryable,
  id: string,
  { sessionId, memberId }: DeviceClaimant,
  nowMs: number,
): Promise<ClaimedRow | null> {
  const rows = await database.query<ClaimedRow>(
    `select id, name, address, scopes from device_logins
     where id = $1 and state = 'claimed' and session_id = $2 and member_id = $3 and expires_at > $4`,
    [id, sessionId, memberId, new Date(nowMs)],
  )
  return rows[0] ?? null
}

/** Approves a login with these rights, under the same conditions; false where they do not hold. */
export async function updateApproved(
  tx: Transaction,
  id: string,
  { sessionId, memberId }: DeviceClaimant,
  granted: { readonly scopes: string; readonly admin: boolean },
  nowMs: number,
): Promise<boolean> {
  const rows = await tx.query(
    `update device_logins set state = 'approved', scopes = $5, admin = $6
     where id = $1 and state = 'claimed' and session_id = $2 and member_id = $3 and expires_at > $4 returning id`,
    [id, sessionId, memberId, new Date(nowMs), granted.scopes, granted.admin],
  )
  return rows.length > 0
}

/** Denies a login under the same conditions; false where they do not hold. */
export async function updateDenied(
  database: Queryable,
  id: string,
  { sessionId, memberId }: DeviceClaimant,
  nowMs: number,
): Promise<boolean> {
  const rows = await database.query(
    `update device_logins set state = 'denied'
     where id = $1 and state = 'claimed' and session_id = $2 and member_id = $3 and expires_at > $4 returning id`,
    [id, sessionId, memberId, new Date(nowMs)],
  )
  return rows.length > 0
}

export interface PolledLogin {
  readonly id: string
  readonly state: 'open' | 'claimed' | 'approved' | 'denied'
  /** The program asks faster than it was told to, and nobody has decided. */
  readonly is_too_soon: boolean
  readonly name: string
  readonly scopes: string
  readonly admin: boolean
  /** Null until somebody has claimed it. */
  readonly member_id: string | null
  readonly organization_id: string | null
  readonly user_id: string | null
}

/** Notes a question of the program with this code, which must ask more slowly if it came too soon. Null where there is no login. */
export async function updatePolled(
  database: Queryable,
  deviceHash: Uint8Array,
  nowMs: number,
): Promise<PolledLogin | null> {
  const rows = await database.query<PolledLogin>(
    `update device_logins d set polled_at = $2, interval_seconds =
         case when o.is_too_soon then least(d.interval_seconds + ${SLOWER_SECONDS}, ${INTERVAL_SECONDS_MOST}) else d.interval_seconds end
     from (
       select l.id, m.organization_id, m.user_id, l.state in ('open', 'claimed') and coalesce(
         l.polled_at > $2::timestamptz - make_interval(secs => l.interval_seconds - ${FORGIVEN_SECONDS}), false) as is_too_soon
       from device_logins l left join members m on m.id = l.member_id
       where l.device_hash = $1 and l.expires_at > $2 for update of l
     ) o where d.id = o.id
     returning d.id, d.state, o.is_too_soon, d.name, d.scopes, d.admin, d.member_id, o.organization_id, o.user_id`,
    [deviceHash, new Date(nowMs)],
  )
  return rows[0] ?? null
}

/** Uses an approved login up: of two questions at the same time one gets false. */
export async function deleteApproved(tx: Transaction, id: string, nowMs: number): Promise<boolean> {
  const rows = await tx.query(
    `delete from device_logins where id = $1 and state = 'approved' and expires_at > $2 returning id`,
    [id, new Date(nowMs)],
  )
  return rows.length > 0
}

/** Returns at most `atMost` logins that a person has claimed, or decided on, in the order of their ids, after `afterId`. */
export async function selectOwnLogins(
  database: Queryable,
  userId: string,
  afterId: string | null,
  atMost: number,
): Promise<OwnDeviceLogin[]> {
  const rows = await database.query<{
    id: string
    member_id: string
    name: string
    address: string
    scopes: string
    state: string
    created_at: Date
    expires_at: Date
  }>(
    `select id, member_id, name, address, scopes, state, created_at, expires_at from device_logins
     where member_id in (select id from members where user_id = $1) and ($2::uuid is null or id > $2::uuid)
     order by id limit $3::integer`,
    [userId, afterId, atMost],
  )
  return rows.map(({ member_id: memberId, created_at: createdAt, expires_at: expiresAt, ...row }) => {
    return { ...row, memberId, createdAtMs: createdAt.getTime(), expiresAtMs: expiresAt.getTime() }
  })
}

/** Removes the logins that a person has claimed, or decided on. */
export async function deleteOwnLogins(tx: Transaction, userId: string): Promise<void> {
  await tx.query('delete from device_logins where member_id in (select id from members where user_id = $1)', [userId])
}

/** Removes at most `atMost` logins that have expired; returns how many. */
export async function deleteExpiredLogins(database: Queryable, nowMs: number, atMost: number): Promise<number> {
  const rows = await database.query(
    `delete from device_logins where id in (
       select id from device_logins where expires_at <= $1 order by expires_at limit $2::integer
     ) returning id`,
    [new Date(nowMs), atMost],
  )
  return rows.length
}

/** Deletes the logins that members of an organization have claimed. */
export async function deleteLoginsOf(db: Queryable, organizationId: string): Promise<void> {
  await db.query('delete from device_logins where member_id in (select id from members where organization_id = $1)', [
    organizationId,
  ])
}
