/** Every query on attempts and on the fingerprint of the data key. */

import { arrayLiteral, type Queryable, type Transaction } from '../io/postgres/database.ts'
import { toTimestamp } from '../kernel/time.ts'
import type { KeyScope } from './answer.ts'

export interface NewAttempt extends KeyScope {
  readonly attempt: string
  readonly fingerprint: Uint8Array
  readonly slot: number
  readonly nowMs: number
  readonly expiresAtMs: number
}

/** Begins an attempt where none is there, or its answer has expired; false where the key is taken. */
export async function insertAttempt(db: Queryable, attempt: NewAttempt): Promise<boolean> {
  const rows = await db.query(
    `insert into idempotent_attempts as a (key_id, key_hash, fingerprint, attempt, slot, expires_at)
     values ($1::uuid, $2::bytea, $3::bytea, $4::uuid, $5::integer, $6::timestamptz)
     on conflict (key_id, key_hash) do update set
       fingerprint = excluded.fingerprint, attempt = excluded.attempt, slot = excluded.slot,
       expires_at = excluded.expires_at, status = null, content_type = null, operation_id = null, body = null
     where a.status is not null and a.expires_at <= $7::timestamptz
     returning 1`,
    [
      attempt.keyId,
      attempt.keyHash,
      attempt.fingerprint,
      attempt.attempt,
      attempt.slot,
      toTimestamp(attempt.expiresAtMs),
      toTimestamp(attempt.nowMs),
    ],
  )
  return rows.length > 0
}

export interface AttemptRow {
  readonly attempt: string
  readonly fingerprint: Uint8Array
  readonly slot: number
  /** Null while it is under way. */
  readonly status: number | null
  readonly content_type: string | null
  readonly operation_id: string | null
  readonly body: Uint8Array | null
}

/** The attempt that has a key, whatever its state. */
export async function findAttempt(db: Queryable, { keyId, keyHash }: KeyScope): Promise<AttemptRow | null> {
  const rows = await db.query<AttemptRow>(
    `select attempt, fingerprint, slot, status, content_type, operation_id, body from idempotent_attempts
     where key_id = $1::uuid and key_hash = $2::bytea`,
    [keyId, keyHash],
  )
  return rows[0] ?? null
}

/** Puts an attempt in the place of one that nobody works on any more; false when somebody else has. */
export async function replaceAttempt(db: Queryable, dead: string, attempt: NewAttempt): Promise<boolean> {
  const rows = await db.query(
    `update idempotent_attempts set fingerprint = $3::bytea, attempt = $4::uuid, slot = $5::integer,
       expires_at = $6::timestamptz
     where key_id = $1::uuid and key_hash = $2::bytea and attempt = $7::uuid and status is null returning 1`,
    [
      attempt.keyId,
      attempt.keyHash,
      attempt.fingerprint,
      attempt.attempt,
      attempt.slot,
      toTimestamp(attempt.expiresAtMs),
      dead,
    ],
  )
  return rows.length > 0
}

/** Keeps the answer of an attempt; false where the key is no longer its own. Safe to repeat. A body of null is in a file. */
export async function keepAnswer(
  tx: Transaction,
  { keyId, keyHash }: KeyScope,
  attempt: string,
  answer: { status: number; contentType: string | null; operationId: string | null; body: Uint8Array | null },
): Promise<boolean> {
  const rows = await tx.query(
    `update idempotent_attempts set status = $4::integer, content_type = $5, operation_id = $6, body = $7::bytea
     where key_id = $1::uuid and key_hash = $2::bytea and attempt = $3::uuid returning 1`,
    [keyId, keyHash, attempt, answer.status, answer.contentType, answer.operationId, answer.body],
  )
  return rows.length > 0
}

/** Frees the key of an attempt that gave no answer to keep. */
export async function freeKey(db: Queryable, { keyId, keyHash }: KeyScope, attempt: string): Promise<void> {
  await db.query(
    `delete from idempotent_attempts
     where key_id = $1::uuid and key_hash = $2::bytea and attempt = $3::uuid and status is null`,
    [keyId, keyHash, attempt],
  )
}

/** Frees the keys of a slot's attempts that are not among `living`: left behind by a dead owner, or while the database was away. */
export async function freeAbandoned(db: Queryable, slot: number, living: readonly string[]): Promise<void> {
  await db.query(
    `delete from idempotent_attempts
     where slot = $1::integer and status is null and attempt <> all ($2::text::uuid[])`,
    [slot, arrayLiteral(living)],
  )
}

/** Forgets the kept answer of an attempt, before its time: it shows what was deleted since. */
export async function forgetAnswer(tx: Transaction, attempt: string): Promise<void> {
  await tx.query('delete from idempotent_attempts where attempt = $1::uuid and status is not null', [attempt])
}

/** Forgets so many expired attempts, oldest first, but those under way in this process; how many it were. */
export async function dropExpired(
  db: Queryable,
  nowMs: number,
  living: readonly string[],
  atMost: number,
): Promise<number> {
  const rows = await db.query(
    `delete from idempotent_attempts where (key_id, key_hash) in (
       select key_id, key_hash from idempotent_attempts
       where expires_at <= $1::timestamptz and attempt <> all ($2::text::uuid[])
       order by expires_at limit $3::integer for update skip locked
     ) returning 1`,
    [toTimestamp(nowMs), arrayLiteral(living), atMost],
  )
  return rows.length
}

/** Those of `attempts` that there are. */
export async function findAttempts(db: Queryable, attempts: readonly string[]): Promise<Set<string>> {
  const rows = await db.query<{ attempt: string }>(
    'select attempt from idempotent_attempts where attempt = any ($1::text::uuid[])',
    [arrayLiteral(attempts)],
  )
  return new Set(rows.map(({ attempt }) => attempt))
}

/** Notes the data key's fingerprint if none is noted; the one that holds. */
export async function noteDataKey(db: Queryable, fingerprint: string, nowMs: number): Promise<string> {
  await db.query(
    `insert into data_keys (is_only, fingerprint, first_seen_at) values (true, $1, $2::timestamptz)
     on conflict (is_only) do nothing`,
    [fingerprint, toTimestamp(nowMs)],
  )
  const rows = await db.query<{ fingerprint: string }>('select fingerprint from data_keys')
  return rows[0]?.fingerprint ?? fingerprint
}
