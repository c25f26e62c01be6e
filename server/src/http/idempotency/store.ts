/** Every query on attempts. */

import { arrayLiteral, type Queryable, type Transaction } from '../../infra/postgres/database.ts'
import { toTimestamp } from '../../lib/time.ts'
import type { KeyScope } from './answer.ts'

/** A kept answer counts for so many bytes more than its body, for its row. */
export const ROW_BYTES = 1_024

/** Where forgotten bytes are subtracted. No process has this slot. */
const FORGOTTEN_SLOT = -1

export interface NewAttempt extends KeyScope {
  readonly organizationId: string
  readonly attempt: string
  readonly fingerprint: Uint8Array
  readonly slot: number
  readonly nowMs: number
  readonly expiresAtMs: number
}

/** Returns the first six parameters of the statements that write an attempt. */
function fieldsOf({ keyId, keyHash, fingerprint, attempt, slot, expiresAtMs }: NewAttempt) {
  return [keyId, keyHash, fingerprint, attempt, slot, toTimestamp(expiresAtMs)] as const
}

/** Begins an attempt where none is there; false where the key is taken. */
export async function insertAttempt(db: Queryable, attempt: NewAttempt): Promise<boolean> {
  const rows = await db.query(
    `insert into idempotent_attempts (key_id, key_hash, fingerprint, attempt, slot, expires_at, organization_id)
     values ($1::uuid, $2::bytea, $3::bytea, $4::uuid, $5::integer, $6::timestamptz, $7::uuid)
     on conflict (key_id, key_hash) do nothing returning 1`,
    [...fieldsOf(attempt), attempt.organizationId],
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
  /** Null while it is under way. */
  readonly body_bytes: bigint | null
  /** Null where it is a file, or has more bytes than were asked for. */
  readonly body: Uint8Array | null
  /** Number of the key that the body is sealed with. */
  readonly data_key: number
  /** True when the body is in the row. */
  readonly is_in_row: boolean
  readonly is_expired: boolean
}

/** The attempt that has a key, whatever its state. A body of more than `bytesMost` encrypted bytes is left where it is. */
export async function findAttempt(
  db: Queryable,
  { keyId, keyHash }: KeyScope,
  nowMs: number,
  bytesMost: number,
): Promise<AttemptRow | null> {
  const rows = await db.query<AttemptRow>(
    `select attempt, fingerprint, slot, status, content_type, operation_id, body_bytes, data_key, body is not null as is_in_row,
       case when octet_length(body) <= $4::integer then body end as body,
       status is not null and expires_at <= $3::timestamptz as is_expired
     from idempotent_attempts where key_id = $1::uuid and key_hash = $2::bytea`,
    [keyId, keyHash, toTimestamp(nowMs), bytesMost],
  )
  return rows[0] ?? null
}

/** Bytes of an attempt's encrypted body in its row, from `first` to `last`, both included; null when it is gone. */
export async function readBodyRange(
  db: Queryable,
  attempt: string,
  first: number,
  last: number,
): Promise<Uint8Array | null> {
  const rows = await db.query<{ bytes: Uint8Array | null }>(
    `select substring(body from $2::integer for $3::integer) as bytes from idempotent_attempts where attempt = $1::uuid`,
    [attempt, first + 1, last - first + 1],
  )
  return rows[0]?.bytes ?? null
}

/** Puts an attempt in the place of one that nobody works on any more; false when somebody else has. */
export async function replaceAttempt(db: Queryable, dead: string, attempt: NewAttempt): Promise<boolean> {
  const rows = await db.query(
    `update idempotent_attempts set fingerprint = $3::bytea, attempt = $4::uuid, slot = $5::integer,
       expires_at = $6::timestamptz
     where key_id = $1::uuid and key_hash = $2::bytea and attempt = $7::uuid and status is null returning 1`,
    [...fieldsOf(attempt), dead],
  )
  return rows.length > 0
}

/** An answer whose body is encrypted. A body of null is in a file. */
export interface SealedAnswer {
  readonly status: number
  readonly contentType: string | null
  readonly operationId: string | null
  readonly body: Uint8Array | null
  /** Before it was encrypted. */
  readonly bodyBytes: number
  /** Number of the data key that it is encrypted with. */
  readonly dataKey: number
}

/**
 * Keeps the answer of an attempt and counts its bytes for its organization; false where the key is no longer its own, or the
 * data key was dropped: a process that was taken for dead sealed with it. Safe to repeat: an answer that is kept already is counted
 * once. The lock that "for share" takes on the table keeps data keys from being dropped until the transaction ends.
 */
export async function keepAnswer(
  tx: Transaction,
  { keyId, keyHash, attempt, slot }: Pick<NewAttempt, 'keyId' | 'keyHash' | 'attempt' | 'slot'>,
  answer: SealedAnswer,
): Promise<boolean> {
  const rows = await tx.query(
    `with before as (
       select status is null as is_new from idempotent_attempts
       where key_id = $1::uuid and key_hash = $2::bytea and attempt = $3::uuid
         and not exists (select 1 from data_keys where number = $10::smallint and state = 'dropped' for share)
       for update
     ), kept as (
       update idempotent_attempts set status = $4::integer, content_type = $5, operation_id = $6, body = $7::bytea,
         body_bytes = $8::bigint, data_key = $10::smallint
       from before
       where key_id = $1::uuid and key_hash = $2::bytea and attempt = $3::uuid returning organization_id, is_new
     ), counted as (
       insert into kept_answer_bytes as k (organization_id, slot, bytes)
       select organization_id, $9::integer, $8::bigint + ${ROW_BYTES} from kept where is_new
       on conflict (organization_id, slot) do update set bytes = k.bytes + excluded.bytes
     )
     select 1 from kept`,
    [
      keyId,
      keyHash,
      attempt,
      answer.status,
      answer.contentType,
      answer.operationId,
      answer.body,
      answer.bodyBytes,
      slot,
      answer.dataKey,
    ],
  )
  return rows.length > 0
}

/**
 * Ends a statement that deletes attempts as `dropped`: subtracts their bytes. Organizations come in one order, so that two
 * processes that forget at the same time never wait for each other in a ring.
 */
const UNCOUNT = `uncounted as (
     insert into kept_answer_bytes as k (organization_id, slot, bytes)
     select organization_id, ${FORGOTTEN_SLOT}, -sum(body_bytes + ${ROW_BYTES})::bigint from dropped
     where status is not null group by organization_id order by organization_id
     on conflict (organization_id, slot) do update set bytes = k.bytes + excluded.bytes
   )
   select count(*) as count from dropped`

/** Returns how many bytes the kept answers of an organization take. */
export async function readKeptBytes(db: Queryable, organizationId: string): Promise<number> {
  const rows = await db.query<{ bytes: bigint }>(
    'select coalesce(sum(bytes), 0)::bigint as bytes from kept_answer_bytes where organization_id = $1::uuid',
    [organizationId],
  )
  return Number(rows[0]?.bytes ?? 0n)
}

/** Forgets the expired answer of an attempt, so that its key can begin anew. */
export async function dropAnswer(db: Queryable, attempt: string, nowMs: number): Promise<void> {
  await db.query(
    `with dropped as (
       delete from idempotent_attempts where attempt = $1::uuid and status is not null and expires_at <= $2::timestamptz
       returning organization_id, status, body_bytes
     ), ${UNCOUNT}`,
    [attempt, toTimestamp(nowMs)],
  )
}

/** Frees the key of an attempt that gave no answer to keep. */
export async function freeKey(db: Queryable, { keyId, keyHash }: KeyScope, attempt: string): Promise<void> {
  await db.query(
    `delete from idempotent_attempts
     where key_id = $1::uuid and key_hash = $2::bytea and attempt = $3::uuid and status is null`,
    [keyId, keyHash, attempt],
  )
}

/** Returns the ids of a slot's attempts that have no answer. */
export async function listOpenAttempts(db: Queryable, slot: number): Promise<readonly string[]> {
  const rows = await db.query<{ attempt: string }>(
    'select attempt from idempotent_attempts where slot = $1::integer and status is null',
    [slot],
  )
  return rows.map(({ attempt }) => attempt)
}

/** Frees the keys of those of a slot's `attempts` that still have no answer. */
export async function freeKeys(db: Queryable, slot: number, attempts: readonly string[]): Promise<void> {
  await db.query(
    `delete from idempotent_attempts
     where attempt = any ($2::text::uuid[]) and slot = $1::integer and status is null`,
    [slot, arrayLiteral(attempts)],
  )
}

/** Takes attempts under way into a slot: their process has lost the one that they began under. */
export async function adoptAttempts(db: Queryable, slot: number, living: readonly string[]): Promise<void> {
  await db.query(
    `update idempotent_attempts set slot = $1::integer
     where attempt = any ($2::text::uuid[]) and status is null and slot <> $1::integer`,
    [slot, arrayLiteral(living)],
  )
}

/** Forgets the kept answer of an attempt, before its time: it shows what was deleted since. */
export async function forgetAnswer(tx: Transaction, attempt: string): Promise<void> {
  await tx.query(
    `with dropped as (
       delete from idempotent_attempts where attempt = $1::uuid and status is not null
       returning organization_id, status, body_bytes
     ), ${UNCOUNT}`,
    [attempt],
  )
}

/** Forgets so many expired attempts, oldest first, but those under way in this process; how many it were. */
export async function dropExpired(
  db: Queryable,
  nowMs: number,
  living: readonly string[],
  atMost: number,
): Promise<number> {
  const rows = await db.query<{ count: bigint }>(
    `with dropped as (
       delete from idempotent_attempts where (key_id, key_hash) in (
         select key_id, key_hash from idempotent_attempts
         where expires_at <= $1::timestamptz and attempt <> all ($2::text::uuid[])
         order by expires_at limit $3::integer for update skip locked
       ) returning organization_id, status, body_bytes
     ), ${UNCOUNT}`,
    [toTimestamp(nowMs), arrayLiteral(living), atMost],
  )
  return Number(rows[0]?.count ?? 0n)
}

/** Those of `attempts` that there are. */
export async function findAttempts(db: Queryable, attempts: readonly string[]): Promise<Set<string>> {
  const rows = await db.query<{ attempt: string }>(
    'select attempt from idempotent_attempts where attempt = any ($1::text::uuid[])',
    [arrayLiteral(attempts)],
  )
  return new Set(rows.map(({ attempt }) => attempt))
}

/**
 * Returns whether any kept answer is sealed with a data key. Asks for the first key from this number on: in that order PostgreSQL reads
 * the index. For one key alone it read all rows, where its statistics still said that most of them have it.
 */
export async function isAnswerSealedWith(db: Queryable, number: number): Promise<boolean> {
  const [first] = await db.query<{ data_key: number }>(
    `select data_key from idempotent_attempts
     where data_key >= $1::smallint and status is not null order by data_key limit 1`,
    [number],
  )
  return first?.data_key === number
}

/**
 * Kept answers in their rows that are sealed with another data key than this, of at most so many encrypted bytes each, by the ids
 * of their attempts.
 */
export async function listSealedAnswers(
  db: Queryable,
  number: number,
  after: string | null,
  bytesMost: number,
  atMost: number,
) {
  return db.query<{ attempt: string; data_key: number; body: Uint8Array; body_bytes: bigint }>(
    `select attempt, data_key, body, body_bytes from idempotent_attempts
     where data_key <> $1::smallint and ($2::uuid is null or attempt > $2::uuid)
       and status is not null and octet_length(body) <= $3::integer
     order by attempt limit $4::integer`,
    [number, after, bytesMost, atMost],
  )
}

/** Puts the body of an attempt, sealed anew, in the place of the one that is sealed with the key `from`; whether it was there. */
export async function putSealedAnswer(
  tx: Transaction,
  attempt: string,
  from: number,
  body: Uint8Array,
  number: number,
): Promise<boolean> {
  const rows = await tx.query(
    `update idempotent_attempts set body = $3::bytea, data_key = $4::smallint
     where attempt = $1::uuid and data_key = $2::smallint and status is not null returning 1`,
    [attempt, from, body, number],
  )
  return rows.length > 0
}

/** Forgets so many kept answers of principals, before their time; returns how many. Attempts under way stay. */
export async function forgetAnswersOf(db: Queryable, keyIds: readonly string[], atMost: number): Promise<number> {
  const rows = await db.query<{ count: bigint }>(
    `with dropped as (
       delete from idempotent_attempts where (key_id, key_hash) in (
         select key_id, key_hash from idempotent_attempts
         where key_id = any ($1::text::uuid[]) and status is not null limit $2::integer for update skip locked
       ) returning organization_id, status, body_bytes
     ), ${UNCOUNT}`,
    [arrayLiteral(keyIds), atMost],
  )
  return Number(rows[0]?.count ?? 0n)
}
