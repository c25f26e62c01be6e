/** Every query on operations. */

import { arrayLiteral, type Queryable, type Transaction } from '../infra/postgres/database.ts'
import { toTimestamp } from '../lib/time.ts'
import {
  type NewOperation,
  OPERATION_MOVES,
  type Operation,
  type OperationKind,
  type OperationMoveName,
  type OperationResult,
} from './operation.ts'

interface OperationRow {
  readonly id: string
  readonly organization_id: string
  readonly principal_id: string
  readonly kind: OperationKind
  readonly state: Operation['state']
  readonly resource_id: string
  readonly error_detail: string | null
  readonly result: OperationResult | null
  readonly created_at: Date
  readonly updated_at: Date
  readonly completed_at: Date | null
}

const COLUMNS = `id, organization_id, principal_id, kind, state, resource_id, error_detail, result, created_at, updated_at,
  completed_at`

function toOperation(row: OperationRow): Operation {
  return {
    id: row.id,
    organizationId: row.organization_id,
    principalId: row.principal_id,
    kind: row.kind,
    state: row.state,
    resourceId: row.resource_id,
    errorDetail: row.error_detail,
    result: row.result,
    createdAtMs: row.created_at.getTime(),
    updatedAtMs: row.updated_at.getTime(),
    completedAtMs: row.completed_at?.getTime() ?? null,
  }
}

/** Accepts an operation, in the transaction of what it is about. */
export async function insertOperation(tx: Transaction, operation: NewOperation): Promise<void> {
  await tx.query(
    `insert into operations (id, organization_id, principal_id, kind, state, resource_id, created_at, updated_at)
     values ($1::uuid, $2::uuid, $3::uuid, $4, 'pending', $5::uuid, $6::timestamptz, $6::timestamptz)`,
    [
      operation.id,
      operation.organizationId,
      operation.principalId,
      operation.kind,
      operation.resourceId,
      toTimestamp(operation.createdAtMs),
    ],
  )
}

/** Moves every operation of one kind on a resource that may make this move. Returns how many there were. */
export async function moveOperations(
  db: Queryable,
  name: OperationMoveName,
  of: { readonly resourceId: string; readonly kind: OperationKind },
  written: { readonly atMs: number; readonly errorDetail?: string; readonly result?: OperationResult },
): Promise<number> {
  const { from, to } = OPERATION_MOVES[name]
  const rows = await db.query(
    `update operations set state = $4, updated_at = $5::timestamptz, error_detail = $6, result = $7::text::jsonb,
       completed_at = case when $4 in ('succeeded', 'failed', 'cancelled') then $5::timestamptz end
     where resource_id = $1::uuid and kind = $2 and state = any($3::text::text[]) returning id`,
    [
      of.resourceId,
      of.kind,
      arrayLiteral(from),
      to,
      toTimestamp(written.atMs),
      written.errorDetail ?? null,
      written.result === undefined ? null : JSON.stringify(written.result),
    ],
  )
  return rows.length
}

/** An operation of an organization; where `principalId` is given, only if it is that principal's. Null: there is none such. */
export async function findOperation(
  db: Queryable,
  organizationId: string,
  principalId: string | null,
  id: string,
): Promise<Operation | null> {
  const rows = await db.query<OperationRow>(
    `select ${COLUMNS} from operations
     where id = $1::uuid and organization_id = $2::uuid and ($3::uuid is null or principal_id = $3::uuid)`,
    [id, organizationId, principalId],
  )
  return rows[0] === undefined ? null : toOperation(rows[0])
}

/** The newest operation of one kind that a principal has asked for on a resource; null: there is none. */
export async function findLatestOperation(
  db: Queryable,
  principalId: string,
  of: { readonly resourceId: string; readonly kind: OperationKind },
): Promise<Operation | null> {
  const rows = await db.query<OperationRow>(
    `select ${COLUMNS} from operations where resource_id = $1::uuid and kind = $2 and principal_id = $3::uuid
     order by created_at desc, id desc limit 1`,
    [of.resourceId, of.kind, principalId],
  )
  return rows[0] === undefined ? null : toOperation(rows[0])
}

/** Drops so many operations that ended before an instant, oldest first; returns how many. */
export async function deleteEndedOperations(db: Queryable, beforeMs: number, limit: number): Promise<number> {
  const rows = await db.query(
    `delete from operations where id in (select id from operations where completed_at < $1::timestamptz
       order by completed_at limit $2::integer for update skip locked) returning 1`,
    [toTimestamp(beforeMs), limit],
  )
  return rows.length
}

/** Deletes the operations of an organization that have ended. */
export async function deleteEndedOperationsOf(db: Queryable, organizationId: string): Promise<void> {
  await db.query('delete from operations where organization_id = $1::uuid and completed_at is not null', [
    organizationId,
  ])
}
