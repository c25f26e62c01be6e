/** Every query on data keys and on the processes that hold them. */

import { arrayLiteral, type Queryable, type Transaction } from '../../infra/postgres/database.ts'
import { toTimestamp } from '../../lib/time.ts'

/** Told to all processes when a key's state has changed. */
export const DATA_KEYS_CHANNEL = 'data_keys'

export interface DataKeyRow {
  readonly number: number
  readonly fingerprint: string
  readonly state: 'offered' | 'sealing' | 'opening' | 'dropped'
}

export interface HolderRow {
  readonly slot: number
  readonly held: readonly number[]
  readonly seals: number
}

/** Keeps every key's state as it is until the transaction ends, against all who keep it as well or change it. */
export async function lockDataKeys(tx: Transaction): Promise<void> {
  await tx.query('lock table data_keys in exclusive mode')
}

/** All keys, oldest first. */
export async function listDataKeys(db: Queryable): Promise<DataKeyRow[]> {
  return db.query<DataKeyRow>('select number, fingerprint, state from data_keys order by number')
}

export async function insertDataKey(tx: Transaction, key: DataKeyRow, nowMs: number): Promise<void> {
  await tx.query(
    'insert into data_keys (number, fingerprint, state, first_seen_at) values ($1::smallint, $2, $3, $4)',
    [key.number, key.fingerprint, key.state, toTimestamp(nowMs)],
  )
}

export async function setDataKeyState(tx: Transaction, number: number, state: DataKeyRow['state']): Promise<void> {
  await tx.query('update data_keys set state = $2 where number = $1::smallint', [number, state])
}

export async function listHolders(db: Queryable): Promise<HolderRow[]> {
  const rows = await db.query<{ slot: number; held: string; seals: number }>(
    'select slot, to_json(held)::text as held, seals from data_key_holders order by slot',
  )
  return rows.map((row) => ({ ...row, held: JSON.parse(row.held) as number[] }))
}

/** Notes which keys the process of a slot holds. */
export async function putHolder(tx: Transaction, { slot, held, seals }: HolderRow): Promise<void> {
  await tx.query(
    `insert into data_key_holders (slot, held, seals) values ($1::integer, $2::text::smallint[], $3::smallint)
     on conflict (slot) do update set held = excluded.held, seals = excluded.seals`,
    [slot, arrayLiteral([...held]), seals],
  )
}

export async function deleteHolder(db: Queryable, slot: number): Promise<void> {
  await db.query('delete from data_key_holders where slot = $1::integer', [slot])
}

export async function notifyDataKeys(tx: Transaction): Promise<void> {
  await tx.query('select pg_notify($1, $2)', [DATA_KEYS_CHANNEL, ''])
}
