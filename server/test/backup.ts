/** A backup of a test's database, taken and restored whole, beside the tables themselves. */

import type { Database, Queryable } from '../src/infra/postgres/database.ts'

/** Copies every table. */
export async function takeBackup(database: Database): Promise<void> {
  await database.transaction(async (tx) => {
    await tx.query('create schema backup')
    for (const name of await tablesOf(tx)) await tx.query(`create table backup.${name} as table public.${name}`)
  })
}

/** Gives every table the rows of the backup, and forgets the backup. */
export async function restoreBackup(database: Database): Promise<void> {
  await database.transaction(async (tx) => {
    const tables = await tablesOf(tx)
    // Rows come back as they were: nothing checks in which order.
    await tx.query(`set local session_replication_role = 'replica'`)
    for (const name of tables) await tx.query(`delete from public.${name}`)
    for (const name of tables) {
      const [kept] = await tx.query<{ there: boolean }>(`select to_regclass('backup.${name}') is not null as there`)
      if (kept?.there === true) await tx.query(`insert into public.${name} select * from backup.${name}`)
    }
    await tx.query('drop schema backup cascade')
  })
}

/** Partitions by themselves; migrations are no data. */
async function tablesOf(db: Queryable): Promise<string[]> {
  const rows = await db.query<{ name: string }>(
    `select relname as name from pg_class where relkind = 'r' and relnamespace = 'public'::regnamespace
       and relname not like '%migrations%'`,
  )
  return rows.map(({ name }) => name)
}
