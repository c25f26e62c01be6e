import { arrayLiteral, type Queryable } from '../io/postgres/database.ts'
import type { Organization, Standing } from './organization.ts'

/** Every statement on `organizations`. */

interface OrganizationRow {
  readonly id: string
  readonly name: string
  readonly standing: Standing
  readonly created_at: Date
  readonly notify_addresses: string[]
}

const COLUMNS = 'id, name, standing, created_at, notify_addresses'

/** False when the name is taken; the unique index decides, not a look beforehand. */
export async function insertOrganization(database: Queryable, organization: Organization): Promise<boolean> {
  const rows = await database.query(
    `insert into organizations (${COLUMNS}) values ($1, $2, $3, $4, $5::text::text[])
     on conflict (name) do nothing returning id`,
    [
      organization.id,
      organization.name,
      organization.standing,
      new Date(organization.createdAtMs),
      arrayLiteral(organization.notifyAddresses),
    ],
  )
  return rows.length === 1
}

/** The organization of that exact name. */
export async function selectOrganizationByName(database: Queryable, name: string): Promise<Organization | undefined> {
  const rows = await database.query<OrganizationRow>(`select ${COLUMNS} from organizations where name = $1`, [name])
  return rows[0] && fromRow(rows[0])
}

/** All organizations, oldest first. */
export async function selectOrganizations(database: Queryable): Promise<Organization[]> {
  const rows = await database.query<OrganizationRow>(`select ${COLUMNS} from organizations order by created_at, id`)
  return rows.map(fromRow)
}

/** Sets who is told; the organization as it is then. */
export async function updateNotifyAddresses(
  database: Queryable,
  name: string,
  addresses: readonly string[],
): Promise<Organization | undefined> {
  const rows = await database.query<OrganizationRow>(
    `update organizations set notify_addresses = $2::text::text[] where name = $1 returning ${COLUMNS}`,
    [name, arrayLiteral(addresses)],
  )
  return rows[0] && fromRow(rows[0])
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
  }
}
