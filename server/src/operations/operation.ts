/** An asynchronous operation: its states, and what leads from one to the next (section 3 of the interface). */

export const OPERATION_KINDS = ['instance.create', 'instance.delete'] as const
export type OperationKind = (typeof OPERATION_KINDS)[number]

export const OPERATION_STATES = ['pending', 'in_progress', 'succeeded', 'failed', 'cancelled'] as const
export type OperationState = (typeof OPERATION_STATES)[number]

interface OperationMove {
  readonly from: readonly OperationState[]
  readonly to: OperationState
}

/** All that can happen to an operation. The guarded update of `store.ts` allows these moves, and no other. */
export const OPERATION_MOVES = {
  start: { from: ['pending'], to: 'in_progress' },
  succeed: { from: ['in_progress'], to: 'succeeded' },
  fail: { from: ['in_progress'], to: 'failed' },
  /** Something else came first, such as the deletion of what was to be created. */
  cancel: { from: ['pending', 'in_progress'], to: 'cancelled' },
} as const satisfies Record<string, OperationMove>

export type OperationMoveName = keyof typeof OPERATION_MOVES

/** Where an instance answers, once it runs. */
export interface OperationResult {
  /** Null: the driver gives it none. */
  readonly appUrl: string | null
  readonly terminalUrl: string | null
  /** The name that goes with the password of its app; null: none of ours is asked for. Older rows do not have it. */
  readonly appUser?: string | null
}

export interface Operation {
  readonly id: string
  readonly organizationId: string
  /** The API key or the member that asked for it. */
  readonly principalId: string
  readonly kind: OperationKind
  readonly state: OperationState
  readonly resourceId: string
  /** Why it failed, in our words. */
  readonly errorDetail: string | null
  readonly result: OperationResult | null
  readonly createdAtMs: number
  readonly updatedAtMs: number
  readonly completedAtMs: number | null
}

/** An operation as it is accepted. */
export type NewOperation = Pick<
  Operation,
  'id' | 'organizationId' | 'principalId' | 'kind' | 'resourceId' | 'createdAtMs'
>

/** Returns a new operation as it stands in the database once it is accepted. */
export function acceptedOperation(operation: NewOperation): Operation {
  const { createdAtMs: updatedAtMs } = operation
  return { ...operation, state: 'pending', errorDetail: null, result: null, updatedAtMs, completedAtMs: null }
}
