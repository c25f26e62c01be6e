import type { Queryable, Transaction } from '../../../infra/postgres/database.ts'
import type { Person, PersonDetails } from './person.ts'

/** Every statement on `users` and `credentials` but those of the package. */

interface PersonRow {
  readonly id: string
  readonly name: string
  readonly email: string
  readonly is_operator: boolean
}

/** Returns whether anybody has an account. */
export async function selectAnyPerson(database: Queryable): Promise<boolean> {
  return (await database.query('select 1 from users limit 1')).length > 0
}

export async function selectPersonByEmail(database: Queryable, email: string): Promise<Person | null> {
  const rows = await database.query<PersonRow>('select id, name, email, is_operator from users where email = $1', [
    email,
  ])
  const [row] = rows
  return row === undefined ? null : fromRow(row)
}

export async function selectPersonById(database: Queryable, id: string): Promise<Person | null> {
  const rows = await database.query<PersonRow>('select id, name, email, is_operator from users where id = $1', [id])
  const [row] = rows
  return row === undefined ? null : fromRow(row)
}

export async function selectPersonDetails(database: Queryable, id: string): Promise<PersonDetails | null> {
  const rows = await database.query<
    PersonRow & { email_verified: boolean; created_at: Date; updated_at: Date; password_set_at: Date | null }
  >(
    `select u.id, u.name, u.email, u.is_operator, u.email_verified, u.created_at, u.updated_at, (
       select c.updated_at from credentials c where c.provider_id = 'credential' and c.account_id = u.id::text
     ) as password_set_at
     from users u where u.id = $1`,
    [id],
  )
  const [row] = rows
  if (row === undefined) return null
  return {
    ...fromRow(row),
    isEmailVerified: row.email_verified,
    createdAtMs: row.created_at.getTime(),
    updatedAtMs: row.updated_at.getTime(),
    passwordSetAtMs: row.password_set_at?.getTime() ?? null,
  }
}

/**
 * Locks a person for good: nothing that belongs to the person can be inserted until the transaction ends. Operators are locked
 * too, in the order of their ids, so that of two who are erased at the same time the second sees that the first is gone.
 */
export async function lockPersonAndOperators(
  tx: Transaction,
  userId: string,
): Promise<{ readonly person: Person; readonly hasOtherOperators: boolean } | null> {
  const locked = await tx.query<{ id: string }>(
    'select id from users where id = $1 or is_operator order by id for no key update',
    [userId],
  )
  const rows = await tx.query<PersonRow>('select id, name, email, is_operator from users where id = $1 for update', [
    userId,
  ])
  const [row] = rows
  return row === undefined ? null : { person: fromRow(row), hasOtherOperators: locked.some(({ id }) => id !== userId) }
}

/** Removes a person, and every row that goes with it. Memberships name nobody then. */
export async function deletePerson(tx: Transaction, userId: string): Promise<void> {
  await tx.query('delete from users where id = $1', [userId])
}

/** Removes a person's password if it is still the one with this hash, or any (null); false where it is another one, or none. */
export async function deletePassword(tx: Transaction, userId: string, hash: string | null): Promise<boolean> {
  const rows = await tx.query(
    `delete from credentials where provider_id = 'credential' and account_id = $1::text
       and ($2::text is null or password = $2::text) returning id`,
    [userId, hash],
  )
  return rows.length > 0
}

/** Locks a person's row, so that rows beneath it can be counted. Rows that name the person can still be written. */
export async function lockPersonRow(tx: Transaction, userId: string): Promise<void> {
  await tx.query('select 1 from users where id = $1 for no key update', [userId])
}

/** Inserts a person whose address is known to be theirs, with a password; false when the address is taken. */
export async function insertPerson(
  tx: Transaction,
  { id, name, email, isOperator }: Person,
  passwordHash: string,
  atMs: number,
): Promise<boolean> {
  const rows = await tx.query(
    `insert into users (id, name, email, email_verified, is_operator, created_at, updated_at)
     values ($1, $2, $3, true, $4, $5, $5) on conflict (email) do nothing returning id`,
    [id, name, email, isOperator, new Date(atMs)],
  )
  if (rows.length === 0) return false
  await insertPassword(tx, id, passwordHash, atMs)
  return true
}

/** The hash of a person's password; null where the person has none. */
export async function selectPassword(database: Queryable, userId: string): Promise<string | null> {
  const rows = await database.query<{ password: string | null }>(
    "select password from credentials where provider_id = 'credential' and account_id = $1::text",
    [userId],
  )
  return rows[0]?.password ?? null
}

const PASSWORD_BY_EMAIL = `select c.password from users u
  join credentials c on c.provider_id = 'credential' and c.account_id = u.id::text`

/** The same by the person's address. */
export async function selectPasswordByEmail(database: Queryable, email: string): Promise<string | null> {
  const rows = await database.query<{ password: string | null }>(`${PASSWORD_BY_EMAIL} where u.email = $1`, [email])
  return rows[0]?.password ?? null
}

/** The same, once every change of it that is under way has been committed or given up. */
export async function selectSettledPassword(database: Queryable, email: string): Promise<string | null> {
  const rows = await database.query<{ password: string | null }>(
    `${PASSWORD_BY_EMAIL} where u.email = $1 for share of c`,
    [email],
  )
  return rows[0]?.password ?? null
}

/** Sets a person's password, in place of the one before. */
export async function insertPassword(tx: Transaction, userId: string, hash: string, atMs: number): Promise<void> {
  await tx.query(
    `insert into credentials (user_id, provider_id, account_id, password, created_at, updated_at)
     values ($1::uuid, 'credential', $2::text, $3, $4, $4)
     on conflict (provider_id, account_id) do update set password = excluded.password, updated_at = excluded.updated_at`,
    [userId, userId, hash, new Date(atMs)],
  )
}

/** The operators, by their addresses. */
export async function selectOperators(database: Queryable): Promise<Person[]> {
  const rows = await database.query<PersonRow>(
    'select id, name, email, is_operator from users where is_operator order by email',
  )
  return rows.map(fromRow)
}

/** Makes a person an operator, or takes that away; undefined where nobody has the address. */
export async function updateOperator(
  tx: Transaction,
  email: string,
  isOperator: boolean,
  atMs: number,
): Promise<{ readonly person: Person; readonly isChanged: boolean } | undefined> {
  const rows = await tx.query<PersonRow>('select id, name, email, is_operator from users where email = $1 for update', [
    email,
  ])
  const [row] = rows
  if (row === undefined) return undefined
  const isChanged = row.is_operator !== isOperator
  if (isChanged)
    await tx.query('update users set is_operator = $2, updated_at = $3 where id = $1', [
      row.id,
      isOperator,
      new Date(atMs),
    ])
  return { person: { ...fromRow(row), isOperator }, isChanged }
}

/** Replaces a person's password if it is still the one with this hash; false where it is another one meanwhile. */
export async function updatePassword(
  tx: Transaction,
  userId: string,
  before: string,
  hash: string,
  atMs: number,
): Promise<boolean> {
  const rows = await tx.query(
    `update credentials set password = $3, updated_at = $4
     where provider_id = 'credential' and account_id = $1::text and password = $2 returning id`,
    [userId, before, hash, new Date(atMs)],
  )
  return rows.length > 0
}

/** Gives a person another address, known to be theirs, in place of this one; false where the person has another one, or somebody has it. */
export async function updateEmail(
  tx: Transaction,
  userId: string,
  before: string,
  email: string,
  atMs: number,
): Promise<boolean> {
  const rows = await tx.query(
    `update users set email = $3, email_verified = true, updated_at = $4
     where id = $1 and email = $2 and not exists (select 1 from users where email = $3) returning id`,
    [userId, before, email, new Date(atMs)],
  )
  return rows.length > 0
}

/** When a person's password was set, which nobody sets again until the end of the transaction; null where the person has none. */
export async function lockPassword(tx: Transaction, userId: string): Promise<Date | null> {
  const rows = await tx.query<{ updated_at: Date }>(
    "select updated_at from credentials where provider_id = 'credential' and account_id = $1::text for share",
    [userId],
  )
  return rows[0]?.updated_at ?? null
}

function fromRow({ id, name, email, is_operator: isOperator }: PersonRow): Person {
  return { id, name, email, isOperator }
}
