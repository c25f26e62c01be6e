import { arrayLiteral, type Queryable, type Transaction } from '../../infra/postgres/database.ts'
import { LOCK_CLASS } from '../../infra/postgres/locks.ts'
import { isUuid } from '../../lib/ids.ts'
import type { Organization, Standing } from './organization.ts'

/** Every statement on `organizations`. A deleted one is found only by those that say so. */

interface OrganizationRow {
  readonly id: string
  readonly name: string
  readonly standing: Standing
  readonly created_at: Date
  readonly notify_addresses: string[]
  readonly deleted_at: Date | null
}

const COLUMNS = 'id, name, standing, created_at, notify_addresses, deleted_at'

/**
 * Returns false when the name is taken; the unique index decides, not a look beforehand. Organizations that strangers registered
 * may share a name.
 */
export async function insertOrganization(
  database: Queryable,
  organization: Organization,
  isRegistered = false,
): Promise<boolean> {
  const rows = await database.query(
    `insert into organizations (id, name, standing, created_at, notify_addresses, is_registered) values ($1, $2, $3, $4, $5::text::text[], $6)
     on conflict (name) where not is_registered do nothing returning id`,
    [
      organization.id,
      organization.name,
      organization.standing,
      new Date(organization.createdAtMs),
      arrayLiteral(organization.notifyAddresses),
      isRegistered,
    ],
  )
  return rows.length === 1
}

/** Waits for the lock of first starts, and holds it until the end of the transaction. */
export async function lockFirstStart(tx: Transaction): Promise<void> {
  await tx.query('select pg_advisory_xact_lock($1::int4, 0)', [LOCK_CLASS.firstStart])
}

/** Finds the organization that an operator calls so: by its exact name, or by its id where it registered itself. */
const CALLED = 'deleted_at is null and (name = $1 and not is_registered or is_registered and id = $2::uuid)'

const calledBy = (name: string) => [name, isUuid(name) ? name : null]

/** The organization of that exact name; a registered one by its id. */
export async function selectOrganizationByName(database: Queryable, name: string): Promise<Organization | undefined> {
  const rows = await database.query<OrganizationRow>(
    `select ${COLUMNS} from organizations where ${CALLED}`,
    calledBy(name),
  )
  return rows[0] && fromRow(rows[0])
}

/** The same, or a deleted organization by its id. */
export async function selectAnyOrganizationByName(
  database: Queryable,
  name: string,
): Promise<Organization | undefined> {
  const rows = await database.query<OrganizationRow>(
    `select ${COLUMNS} from organizations where ${CALLED} or deleted_at is not null and id = $2::uuid`,
    calledBy(name),
  )
  return rows[0] && fromRow(rows[0])
}

/** The names of organizations by their ids, deleted ones among them. */
export async function selectNames(database: Queryable, ids: readonly string[]): Promise<Map<string, string>> {
  const rows = await database.query<{ id: string; name: string }>(
    'select id, name from organizations where id = any($1::text::uuid[])',
    [arrayLiteral(ids)],
  )
  return new Map(rows.map(({ id, name }) => [id, name]))
}

/** Returns at most `atMost` organizations before the id `beforeId`, the newest first, deleted ones too. */
export async function selectOrganizationPage(
  database: Queryable,
  beforeId: string | null,
  atMost: number,
): Promise<Organization[]> {
  const rows = await database.query<OrganizationRow>(
    `select ${COLUMNS} from organizations where $1::uuid is null or id < $1::uuid order by id desc limit $2::integer`,
    [beforeId, atMost],
  )
  return rows.map(fromRow)
}

/** The organization of this id, unless it is deleted; with `isLocked` locked until the end of the transaction. */
export async function selectOrganizationById(
  database: Queryable,
  id: string,
  isLocked = false,
): Promise<Organization | undefined> {
  const lock = isLocked ? 'for no key update' : ''
  const rows = await database.query<OrganizationRow>(
    `select ${COLUMNS} from organizations where id = $1 and deleted_at is null ${lock}`,
    [id],
  )
  return rows[0] && fromRow(rows[0])
}

/** The organization of this id, deleted or not. */
export async function selectAnyOrganizationById(database: Queryable, id: string): Promise<Organization | undefined> {
  const rows = await database.query<OrganizationRow>(`select ${COLUMNS} from organizations where id = $1`, [id])
  return rows[0] && fromRow(rows[0])
}

/** Returns whether any organization was ever deleted. */
export async function selectAnyDeleted(database: Queryable): Promise<boolean> {
  return (await database.query('select 1 from organizations where deleted_at is not null limit 1')).length > 0
}

/** Keeps an organization from being deleted until the end of the transaction; false where it is deleted, or there is none. */
export async function lockUndeletedRow(tx: Transaction, id: string): Promise<boolean> {
  const rows = await tx.query('select 1 from organizations where id = $1 and deleted_at is null for share', [id])
  return rows.length === 1
}

/** Marks an organization as deleted, and erases its name and its addresses for notices. */
export async function updateDeleted(tx: Transaction, id: string, atMs: number): Promise<void> {
  await tx.query(
    `update organizations set deleted_at = $2, name = 'deleted ' || id::text, notify_addresses = '{}'
     where id = $1 and deleted_at is null`,
    [id, new Date(atMs)],
  )
}

/** Sets who is told of an organization's limits. */
export async function updateNotifyAddresses(
  database: Queryable,
  id: string,
  addresses: readonly string[],
): Promise<void> {
  await database.query('update organizations set notify_addresses = $2::text::text[] where id = $1', [
    id,
    arrayLiteral(addresses),
  ])
}

/**
 * Locks, in the order of their ids, the organizations of which a person is a member, and those that tell one of these addresses of
 * their limits.
 */
export async function lockOrganizationsAround(
  tx: Transaction,
  userId: string | null,
  addresses: readonly string[],
): Promise<void> {
  await tx.query(
    `select 1 from organizations where id in (select organization_id from members where user_id = $1 and removed_at is null)
       or exists (select 1 from unnest(notify_addresses) a where lower(a) = any($2::text::text[]))
     order by id for no key update`,
    [userId, arrayLiteral(addresses)],
  )
}

/** Returns at most `atMost` organizations that tell one of these addresses of their limits, in the order of their ids, after `afterId`. */
export async function selectNotifying(
  database: Queryable,
  addresses: readonly string[],
  afterId: string | null,
  atMost: number,
): Promise<Organization[]> {
  const rows = await database.query<OrganizationRow>(
    `select ${COLUMNS} from organizations
     where exists (select 1 from unnest(notify_addresses) a where lower(a) = any($1::text::text[]))
       and ($2::uuid is null or id > $2::uuid) order by id limit $3::integer`,
    [arrayLiteral(addresses), afterId, atMost],
  )
  return rows.map(fromRow)
}

/** Takes these addresses out of those that any organization tells of its limits; the organizations as they are then. */
export async function removeNotifyAddresses(tx: Transaction, addresses: readonly string[]): Promise<Organization[]> {
  const rows = await tx.query<OrganizationRow>(
    `update organizations set notify_addresses =
       array(select a from unnest(notify_addresses) with ordinality as l (a, n)
         where lower(a) <> all($1::text::text[]) order by n)
     where exists (select 1 from unnest(notify_addresses) a where lower(a) = any($1::text::text[]))
     returning ${COLUMNS}`,
    [arrayLiteral(addresses)],
  )
  return rows.map(fromRow)
}

/** Sets the instant of the first payment; false when there was one before. */
export async function updateFirstPaid(database: Queryable, id: string, atMs: number): Promise<boolean> {
  const rows = await database.query(
    'update organizations set first_paid_at = $2 where id = $1 and first_paid_at is null returning id',
    [id, new Date(atMs)],
  )
  return rows.length === 1
}

function fromRow(row: OrganizationRow): Organization {
  return {
    id: row.id,
    name: row.name,
    standing: row.standing,
    createdAtMs: row.created_at.getTime(),
    notifyAddresses: row.notify_addresses,
    deletedAtMs: row.deleted_at?.getTime() ?? null,
  }
}
