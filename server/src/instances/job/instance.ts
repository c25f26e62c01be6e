/** An instance: its states, and what leads from one to the next. */

import { refusal } from '../../lib/errors.ts'
import { SECOND_MS } from '../../lib/time.ts'

/**
 * - `creating`: the driver is asked to make it
 * - `running`: its app answers
 * - `terminating`: it costs nothing any more, and the driver is asked to delete it
 * - `terminated`: nothing of it is left
 * - `failed`: it never ran, and cost nothing; the driver is asked to delete what there is of it
 */
export const INSTANCE_STATES = ['creating', 'running', 'terminating', 'terminated', 'failed'] as const
export type InstanceState = (typeof INSTANCE_STATES)[number]

/** Why an instance ended, as customers are told. */
export const INSTANCE_REASONS = [
  'deleted',
  'insufficient_balance',
  'spending_limit',
  'auto_terminate',
  'app_ended',
  'lost',
  'create_refused',
  'create_timeout',
] as const
export type InstanceReason = (typeof INSTANCE_REASONS)[number]

interface Move {
  readonly from: readonly InstanceState[]
  readonly to: InstanceState
  /** Only who has taken the instance up may do it: it names the attempt, and another's is refused. */
  readonly isFenced: boolean
}

/** All that can happen to an instance. The guarded update of `store.ts` allows these moves, and no other. */
export const INSTANCE_MOVES = {
  /** The driver says that it runs. */
  run: { from: ['creating'], to: 'running', isFenced: true },
  /** The driver would not make it, or not in time. */
  fail: { from: ['creating'], to: 'failed', isFenced: true },
  /** Its customer deletes it, its money or its time is over, or its app has ended. */
  terminate: { from: ['creating', 'running'], to: 'terminating', isFenced: false },
  /** The driver says that nothing is left of it. */
  finish: { from: ['terminating'], to: 'terminated', isFenced: true },
} as const satisfies Record<string, Move>

export type InstanceMoveName = keyof typeof INSTANCE_MOVES

/** An instance as it stands in the database. Seconds are those of its life, counted from its creation. */
export interface Instance {
  /** Also the id of its hold. */
  readonly id: string
  readonly organizationId: string
  /** The API key or the member that created it. */
  readonly principalId: string
  readonly name: string
  readonly app: string
  readonly model: string | null
  readonly gpuType: string
  readonly gpuCount: number
  readonly diskGb: number
  /** The price of an hour of the whole instance that was in force when it was created. */
  readonly hourMicrocents: bigint
  readonly state: InstanceState
  readonly reason: InstanceReason | null
  readonly attempt: number
  readonly misses: number
  readonly createdAtMs: number
  readonly runningAtMs: number | null
  readonly endedAtMs: number | null
  readonly appUrl: string | null
  readonly terminalUrl: string | null
  /** Since when the driver's lists do not have it. */
  readonly missingSinceMs: number | null
  /** Up to here its seconds are charged, or were free. */
  readonly settledSecond: number
  /** Up to here its seconds are held for. */
  readonly heldSecond: number
  /** Since when no further money could be held for it. */
  readonly shortSinceMs: number | null
}

/** An instance before anybody has accepted it. */
export type NewInstance = Pick<
  Instance,
  | 'id'
  | 'organizationId'
  | 'principalId'
  | 'name'
  | 'app'
  | 'model'
  | 'gpuType'
  | 'gpuCount'
  | 'diskGb'
  | 'hourMicrocents'
  | 'createdAtMs'
  | 'heldSecond'
> & { readonly priceHash: Uint8Array }

/** Returns a new instance as it stands in the database once it is accepted. */
export function acceptedInstance({ priceHash: _, ...instance }: NewInstance): Instance {
  return {
    ...instance,
    state: 'creating',
    reason: null,
    attempt: 0,
    misses: 0,
    runningAtMs: null,
    endedAtMs: null,
    appUrl: null,
    terminalUrl: null,
    missingSinceMs: null,
    settledSecond: 0,
    shortSinceMs: null,
  }
}

/** The name by which the driver knows an instance: ours, so that nothing is ever made twice. */
export function driverNameOf(id: string): string {
  return `${DRIVER_NAME_PREFIX}${id}`
}

/** The id of an instance by the driver's name; null: the name is none of ours. */
export function idOfDriverName(name: string): string | null {
  return name.startsWith(DRIVER_NAME_PREFIX) ? name.slice(DRIVER_NAME_PREFIX.length) : null
}

const DRIVER_NAME_PREFIX = 'tollgate-'

/** Whole seconds of an instance's life that are over at an instant. */
export function secondAt({ createdAtMs }: Pick<Instance, 'createdAtMs'>, atMs: number): number {
  return Math.max(Math.floor((atMs - createdAtMs) / SECOND_MS), 0)
}

/** Up to when an instance may be charged: `atMs`, or earlier, where the driver has not known its machine since. */
export function knownUntilMs({ missingSinceMs }: Pick<Instance, 'missingSinceMs'>, atMs: number): number {
  return Math.min(missingSinceMs ?? atMs, atMs)
}

/**
 * The seconds of an instance's life that are billed when it ends at an instant: none since the driver has not known its machine, and no
 * fewer than are billed already.
 */
export function lastSecondAt(
  instance: Pick<Instance, 'createdAtMs' | 'missingSinceMs' | 'settledSecond'>,
  atMs: number,
): number {
  return Math.max(secondAt(instance, knownUntilMs(instance, atMs)), instance.settledSecond)
}

/** The instant at which a second of an instance's life begins. */
export function instantOfSecond({ createdAtMs }: Pick<Instance, 'createdAtMs'>, second: number): number {
  return createdAtMs + second * SECOND_MS
}

/** Returns whether an instance costs money. */
export function isLive({ state }: Pick<Instance, 'state'>): boolean {
  return state === 'creating' || state === 'running'
}

/** Another organization's are no different from none. */
export const NO_SUCH_INSTANCE = refusal(
  'not_found',
  'There is no instance with this id: GET /v1/instances lists yours.',
)
