import { readFigures } from '../billing/admission/accounts/figures.ts'
import { CROWDED, insufficientFor } from '../billing/admission/gateRefusals.ts'
import {
  firstInsufficient,
  GATES,
  headroomOf,
  NEW_ACCOUNT_CAP,
  NEW_ACCOUNT_CAP_MICROCENTS,
} from '../billing/admission/gates.ts'
import { placeInstanceHold } from '../billing/admission/holds/instanceHold.ts'
import { MoneyWait } from '../billing/admission/moneyWait.ts'
import { storeInstancePrice } from '../billing/charges/prices/storePrices.ts'
import { priceInstanceLife } from '../billing/charges/pricing.ts'
import { priceHash } from '../catalog/price.ts'
import { NO_ORGANIZATION } from '../http/principal.ts'
import type { Participant } from '../infra/postgres/database.ts'
import { joinAll } from '../infra/postgres/joinAll.ts'
import { type Refusal, Refused, refusal, TAKEN_OVER } from '../lib/errors.ts'
import { uuidV7 } from '../lib/ids.ts'
import { MINUTE_MS } from '../lib/time.ts'
import { acceptOperation } from '../operations/accept.ts'
import type { NewOperation } from '../operations/operation.ts'
import type { ChosenInstance } from './choose.ts'
import { publishInstance } from './events.ts'
import type { InstanceDependencies } from './job/dependencies.ts'
import { acceptedInstance, type NewInstance } from './job/instance.ts'
import { holdOwner, insertInstance, lockDisk } from './store.ts'
import { refuseAfterShortLives } from './unpaid/shortLives.ts'

const UNREADABLE = refusal(
  'creator_check_unavailable',
  'The account of your organization can not be read at this moment. Nothing was made or charged; try again shortly.',
  { retryAfterSeconds: 1 },
)

const NO_DISK = refusal(
  'disk_unavailable',
  'No disk of this size is left for this GPU type. Ask for less, or try again later.',
  {
    retryAfterSeconds: 60,
  },
)

/** Waiting is of no use. */
const ABOVE_CAP = refusal(
  'quota_exceeded',
  `An hour of this instance costs more than the spending cap of new accounts, ${NEW_ACCOUNT_CAP}. Make a first payment, or ask for less.`,
)

type CreateMeans = Pick<
  InstanceDependencies,
  'database' | 'clock' | 'random' | 'log' | 'settings' | 'money' | 'publish' | 'reached'
>

/** An instance that may be accepted, with the operation that makes it. */
export interface NewCreation {
  readonly instance: NewInstance
  readonly operation: NewOperation
  readonly chosen: ChosenInstance
}

/** Returns an instance as it would be accepted now, at the price of this instant. */
export function newCreation(
  { clock, random, settings }: Pick<CreateMeans, 'clock' | 'random' | 'settings'>,
  { organizationId, principalId }: { readonly organizationId: string; readonly principalId: string },
  chosen: ChosenInstance,
): NewCreation {
  const createdAtMs = clock.now()
  const id = uuidV7(createdAtMs, random)
  const { app, model, gpuType, gpuCount, diskGb, gpu, hourMicrocents } = chosen
  const hash = priceHash({ kind: 'instance_hour', perGpuHourMicrocents: gpu.gpuHourMicrocents })
  return {
    chosen,
    instance: {
      ...{ id, organizationId, principalId, app, model, gpuType, gpuCount, diskGb, hourMicrocents, createdAtMs },
      name: chosen.name ?? `${app}-${id.slice(-6)}`,
      priceHash: hash,
      heldSecond: settings.coverSeconds,
    },
    operation: {
      ...{ organizationId, principalId, createdAtMs },
      id: uuidV7(createdAtMs, random),
      kind: 'instance.create',
      resourceId: id,
    },
  }
}

/**
 * Accepts an instance: its row, its operation, the money for its first minutes, its event and `participants`, which keep its answer,
 * in one transaction. Where money is short, reclaims idle shares and tries again for 2 s; then returns the refusal. Null: it is
 * accepted. Throws `Refused` where another process has taken the Idempotency-Key over, and where the account can't be read.
 */
export async function createInstance(
  means: CreateMeans,
  creation: NewCreation,
  participants: readonly Participant[],
): Promise<Refusal | null> {
  const { database, clock, money } = means
  const { organizationId } = creation.instance
  const { gpuHourMicrocents } = creation.chosen.gpu
  if (!money.knowsTime()) await unreadableAs(means, Promise.reject(new Error('the time is in doubt')))
  const tooShort = await unreadableAs(means, refuseAfterShortLives(database, organizationId, clock.now()))
  if (tooShort !== null) return tooShort
  await unreadableAs(means, storeInstancePrice(database, gpuHourMicrocents, clock.now()))
  const wait = new MoneyWait(money)
  for (;;) {
    const outcome = await tryCreate(means, creation, participants)
    if (outcome !== 'short') return outcome
    const gate = await unreadableAs(means, shortGate(means, creation.instance))
    if (gate === 'newAccount' && creation.instance.hourMicrocents > NEW_ACCOUNT_CAP_MICROCENTS) return ABOVE_CAP
    const share = money.share(organizationId)
    const end = wait.endFor(share)
    if (gate !== null || end === 'over') return insufficientFor(gate ?? 'balance', 'this instance')
    if (end === 'no_place') return CROWDED
    await wait.forAccount(share)
  }
}

async function tryCreate(
  means: CreateMeans,
  { instance: given, operation, chosen }: NewCreation,
  participants: readonly Participant[],
): Promise<Refusal | 'short' | null> {
  const { database, settings, clock } = means
  const { id, organizationId, hourMicrocents, heldSecond } = given
  let isRead = false
  const trying = database.transaction(async (tx) => {
    const hold = { id, organizationId, microcents: priceInstanceLife(hourMicrocents, heldSecond) }
    const isHeld = await placeInstanceHold(tx, hold, hourMicrocents, clock.now())
    isRead = true
    if (!isHeld) return 'short'
    // After the money: more of it is the customer's to bring, and a free disk is not (E1).
    if (chosen.gpu.diskGbTotal !== null) {
      const used = await lockDisk(tx, chosen.gpu.name)
      if (used + given.diskGb > chosen.gpu.diskGbTotal) throw new Refused(NO_DISK)
    }
    // Here it is accepted: nobody pays for the time that its request waited for money or for others.
    const createdAtMs = clock.now()
    const instance = { ...given, createdAtMs }
    const billDueAtMs = createdAtMs + MINUTE_MS
    if (!(await holdOwner(tx, organizationId))) throw new Refused(NO_ORGANIZATION)
    // The account is locked since the hold was placed: what others of the organization inserted is counted.
    if (!(await insertInstance(tx, instance, { liveMost: settings.liveMost, dueAtMs: createdAtMs, billDueAtMs }))) {
      throw new Refused(tooMany(settings.liveMost))
    }
    await acceptOperation(tx, operation)
    await publishInstance(tx, means, 'instance.creating', acceptedInstance(instance))
    await joinAll(tx, participants)
    await means.reached?.('accepting')
    return null
  }, organizationId)
  const outcome = await trying.catch((error: unknown) => {
    if (error instanceof Refused && error.refusal !== TAKEN_OVER) return error.refusal
    if (isRead || error instanceof Refused) throw error
    return unreadableAs(means, Promise.reject(error))
  })
  if (outcome === null) await means.reached?.('accepted')
  return outcome
}

function tooMany(most: number): Refusal {
  return refusal(
    'quota_exceeded',
    `Your organization has ${most} instances, the most that it may have at once; those that are being deleted count. Delete one first, and wait until it is gone.`,
  )
}

/** The gate that leaves too little whatever idle money comes back; null: none does. */
async function shortGate({ database, clock }: CreateMeans, instance: NewInstance) {
  const { organizationId, hourMicrocents, heldSecond } = instance
  const figures = await readFigures(database, organizationId, clock.now())
  const needed = priceInstanceLife(hourMicrocents, heldSecond)
  if (figures === null) return 'balance'
  const headroom = headroomOf({ ...figures, sharesMicrocents: 0n })
  if (headroom.newAccount !== null && headroom.newAccount < hourMicrocents) {
    return firstInsufficient(headroom, 0n, needed, ['balance', 'daily', 'monthly']) ?? 'newAccount'
  }
  return firstInsufficient(headroom, 0n, needed, GATES)
}

/** Waits for a look at the account; one that fails refuses the instance: nothing is made unchecked. */
async function unreadableAs<T>({ money, log }: CreateMeans, looking: Promise<T>): Promise<T> {
  return looking.catch((error: unknown) => {
    money.onUnreadable?.()
    log.warn({ err: error }, 'an account could not be read, and an instance was refused')
    throw new Refused(UNREADABLE)
  })
}
