import type { Queryable, Transaction } from '../infra/postgres/database.ts'
import type { NewOperation, Operation, OperationKind, OperationResult } from './operation.ts'
import { findLatestOperation, insertOperation, moveOperations } from './store.ts'

interface Resource {
  readonly resourceId: string
  readonly kind: OperationKind
}

/** Accepts an operation, in the transaction of what it is about. */
export function acceptOperation(tx: Transaction, operation: NewOperation): Promise<void> {
  return insertOperation(tx, operation)
}

/** Notes that the work on a resource has begun. True: it had not before. */
export async function startOperations(db: Queryable, resource: Resource, atMs: number): Promise<boolean> {
  return (await moveOperations(db, 'start', resource, { atMs })) > 0
}

/** Ends the operations on a resource that are open. `result` is that of a success, `errorDetail` says why they failed. */
export async function endOperations(
  tx: Transaction,
  how: 'succeed' | 'fail',
  resource: Resource,
  ended: { readonly atMs: number; readonly result?: OperationResult; readonly errorDetail?: string },
): Promise<void> {
  // Work may end before anybody noted that it began, such as that of a process that died.
  await moveOperations(tx, 'start', resource, { atMs: ended.atMs })
  await moveOperations(tx, how, resource, ended)
}

/** Cancels the operations on a resource that are open. */
export async function cancelOperations(tx: Transaction, resource: Resource, atMs: number): Promise<void> {
  await moveOperations(tx, 'cancel', resource, { atMs })
}

/** Returns the newest operation of this kind that a principal has asked for on a resource; null: there is none. */
export function latestOperation(db: Queryable, principalId: string, resource: Resource): Promise<Operation | null> {
  return findLatestOperation(db, principalId, resource)
}
