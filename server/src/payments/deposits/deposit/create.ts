import type { DepositAsset, DepositChain } from '../../../catalog/depositChain.ts'
import type { DepositSettings } from '../../../catalog/settings.ts'
import { NO_ORGANIZATION } from '../../../http/principal.ts'
import type { Database, Participant, Queryable, Transaction } from '../../../infra/postgres/database.ts'
import { joinAll } from '../../../infra/postgres/joinAll.ts'
import { refuse } from '../../../lib/errors.ts'
import { type RandomBytes, uuidV7 } from '../../../lib/ids.ts'
import { MICROCENTS_PER_CENT } from '../../../lib/money.ts'
import { type Clock, DAY_MS } from '../../../lib/time.ts'
import { refuseFrozen } from '../../freezes/freezes.ts'
import type { AddressOffer, DepositAddress, DepositAddresses } from './addresses.ts'
import { type Deposit, WATCHED_AFTER_MS } from './deposit.ts'
import { countDepositsAfter, countOpenDeposits, insertDeposit, lockDepositor } from './store.ts'

/** Of 2^31 indexes one that was used before comes up twice in a row about never. */
const TRIES_MOST = 5

export interface CreateDepositDependencies {
  readonly database: Database
  readonly clock: Clock
  readonly random: RandomBytes
  /** Where the addresses of a chain come from. */
  readonly addressesOf: (chain: DepositChain) => DepositAddresses
  readonly settings: Pick<DepositSettings, 'openMost' | 'perDayMost' | 'minDepositCents' | 'expiresMs'>
  /** Returns whether a chain is being watched now, as far as the database knows. */
  readonly isAvailable: (chain: DepositChain) => Promise<boolean>
}

export interface NewDeposit {
  readonly organizationId: string
  readonly chain: DepositChain
  readonly asset: DepositAsset
  /** At least the minimum of the settings. */
  readonly amountCents: number
  /** Keeps the answer, in the transaction that makes the deposit. */
  readonly keep: (deposit: Deposit) => Promise<readonly Participant[]>
}

const AWAY = 'This chain can’t be watched at the moment, so nothing may be sent. Try again in a minute.'

/**
 * Makes a deposit with an address of its own. Throws `Refused`: `org-frozen` (B11), `payment-source-unavailable` where the chain
 * can't be watched or has no free address, `rate_limited` where too many of the organization's are open (B12), `not-found` where it is deleted.
 */
export async function createDeposit(dependencies: CreateDepositDependencies, wanted: NewDeposit): Promise<Deposit> {
  const { database, clock, random, settings, isAvailable, addressesOf } = dependencies
  const { organizationId, chain, asset, amountCents } = wanted
  await refuseFrozen(database, organizationId)
  if (!(await isAvailable(chain))) refuse('payment-source-unavailable', AWAY, { retryAfterSeconds: 60 })
  const createdAtMs = clock.now()
  const expiresAtMs = createdAtMs + settings.expiresMs
  const template = {
    id: uuidV7(createdAtMs, random),
    organizationId,
    status: 'created',
    chain,
    asset,
    amountCents,
    creditedMicrocents: 0n,
    txHash: null,
    createdAtMs,
    expiresAtMs,
    watchedUntilMs: expiresAtMs + WATCHED_AFTER_MS,
  } as const
  // Asked once more beneath the lock: here, so that no node is asked for nothing.
  const placesLeft = await refuseTooMany(database, organizationId, settings, createdAtMs)
  const offer = await addressesOf(chain).offer({ organizationId, placesLeft })
  try {
    const work = (tx: Transaction) => insertDepositOf(tx, dependencies, offer, template, wanted)
    return await database.transaction(work, organizationId)
  } catch (error) {
    // Where this fails too, the address is free again when its reservation lapses.
    await offer.giveBack().catch(() => undefined)
    throw error
  }
}

type Template = Omit<Deposit, keyof DepositAddress>

async function insertDepositOf(
  tx: Transaction,
  { settings }: CreateDepositDependencies,
  offer: AddressOffer,
  template: Template,
  { keep }: NewDeposit,
): Promise<Deposit> {
  const { organizationId, createdAtMs } = template
  if (!(await lockDepositor(tx, organizationId))) refuse('not-found', NO_ORGANIZATION.message)
  await refuseTooMany(tx, organizationId, settings, createdAtMs)
  const deposit = await insertWithAddress(tx, offer, template)
  await joinAll(tx, await keep(deposit))
  return deposit
}

/**
 * Returns how many more an organization may begin now. One that less than the minimum has come to counts as open: it may be tokens of next
 * to no value, sent to have another address.
 */
async function refuseTooMany(
  db: Queryable,
  organizationId: string,
  { openMost, perDayMost, minDepositCents }: CreateDepositDependencies['settings'],
  nowMs: number,
): Promise<number> {
  const leastMicrocents = BigInt(minDepositCents) * MICROCENTS_PER_CENT
  const open = await countOpenDeposits(db, organizationId, { nowMs, leastMicrocents })
  if (open >= openMost) {
    const message = `This organization has ${openMost} open deposits; one is open until its minimum is credited, or it expires. Wait for one of them.`
    refuse('rate_limited', message, { retryAfterSeconds: 60 })
  }
  if ((await countDepositsAfter(db, organizationId, nowMs - DAY_MS)) >= perDayMost) {
    const message = `This organization has begun ${perDayMost} deposits within 24 hours; send to those that are open, or try again later.`
    refuse('rate_limited', message, { retryAfterSeconds: 3_600 })
  }
  return openMost - open
}

async function insertWithAddress(tx: Transaction, offer: AddressOffer, template: Template): Promise<Deposit> {
  for (let tries = 0; tries < TRIES_MOST; tries += 1) {
    const deposit = { ...template, ...(await offer.take(tx)) }
    if (await insertDeposit(tx, deposit)) return deposit
  }
  throw new Error('deposits: five addresses in a row were given out before')
}
