/** Every query on the objects of the local payment provider. */

import type { Queryable, Transaction } from '../../infra/postgres/database.ts'
import { toTimestamp } from '../../lib/time.ts'

/** Inserts an object unless there is one of its id. */
export async function insertLocalObjectOnce(db: Queryable, id: string, body: object, atMs: number): Promise<void> {
  await db.query(
    `insert into local_payment_objects (id, body, changed_at) values ($1, $2::text::jsonb, $3::timestamptz)
     on conflict (id) do nothing`,
    [id, JSON.stringify(body), toTimestamp(atMs)],
  )
}

/** Inserts an object, or writes the one that has its id. */
export async function upsertLocalObject(db: Queryable, id: string, body: object, atMs: number): Promise<void> {
  await db.query(
    `insert into local_payment_objects (id, body, changed_at) values ($1, $2::text::jsonb, $3::timestamptz)
     on conflict (id) do update set body = excluded.body, changed_at = excluded.changed_at`,
    [id, JSON.stringify(body), toTimestamp(atMs)],
  )
}

/** Inserts an object. */
export async function insertLocalObject(db: Queryable, id: string, body: object, atMs: number): Promise<void> {
  await db.query(
    'insert into local_payment_objects (id, body, changed_at) values ($1, $2::text::jsonb, $3::timestamptz)',
    [id, JSON.stringify(body), toTimestamp(atMs)],
  )
}

/** Returns an object; null where there is none of this id. */
export async function selectLocalObject<T>(db: Queryable, id: string): Promise<T | null> {
  const rows = await db.query<{ body: T }>('select body from local_payment_objects where id = $1', [id])
  return rows[0]?.body ?? null
}

/** Returns the objects of a customer whose ids begin with `prefix`, by id. */
export async function selectLocalObjectsOf<T>(
  db: Queryable,
  customer: string,
  prefix: string,
): Promise<{ readonly id: string; readonly body: T }[]> {
  return db.query<{ id: string; body: T }>(
    `select id, body from local_payment_objects where body ->> 'customer' = $1 and starts_with(id, $2) order by id`,
    [customer, prefix],
  )
}

/** Returns the objects whose ids begin with `prefix` and that were changed at an instant or later, by id. */
export async function selectLocalObjects<T>(
  db: Queryable,
  prefix: string,
  changedAtMs: number,
): Promise<{ readonly id: string; readonly body: T }[]> {
  return db.query<{ id: string; body: T }>(
    `select id, body from local_payment_objects where starts_with(id, $1) and changed_at >= $2::timestamptz order by id`,
    [prefix, toTimestamp(changedAtMs)],
  )
}

/** Returns an object and locks it until the end of the transaction. */
export async function lockLocalObject<T>(tx: Transaction, id: string): Promise<T | null> {
  const rows = await tx.query<{ body: T }>('select body from local_payment_objects where id = $1 for update', [id])
  return rows[0]?.body ?? null
}

/** Writes an object that is locked. */
export async function updateLocalObject(tx: Transaction, id: string, body: object, atMs: number): Promise<void> {
  await tx.query(
    'update local_payment_objects set body = $2::text::jsonb, changed_at = $3::timestamptz where id = $1',
    [id, JSON.stringify(body), toTimestamp(atMs)],
  )
}
